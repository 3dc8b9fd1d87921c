"""Functions against the slow model when any of the newest runs are merged: what was removed, or
ended before an older state of its key would have, stays gone.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import accumulate, cycle
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlestate import Policy
from idlestate.backends.runs.compaction import MergePolicy
from idlestate.testing import FunctionHarness
from tests.functions.large_scripted import OUTPUT, LargeScripted
from tests.functions.scripted import Scripted
from tests.functions.test_function_law import SCHEMA, Record, check, expected, row, tuples
from tests.functions.test_large_states_law import large
from tests.lengths import by_cases

DELAY_MS = 60
POLICIES = st.sampled_from([Policy(), Policy(ttl_ms=100)])
TAKEN = st.lists(st.integers(0, 3), min_size=1, max_size=8)


def batches(operations: Sequence[str], look: str) -> st.SearchStrategy[list[list[Record]]]:
    """Batches of one key whose times go on, but not always; then the watermark passes its ends
    while runs are still merged.
    """
    each = st.tuples(st.sampled_from(operations), st.integers(-50, 20), st.integers(0, 9))
    spans = st.lists(st.integers(1, 60), min_size=4, max_size=8)

    def timed(steps: list[tuple[str, int, int]], spans_ms: list[int]) -> list[list[Record]]:
        found: list[list[Record]] = []
        for at, (op, ms, n) in enumerate(steps):
            times = 3 if op == "count" else 1
            found.append([("a", max(15 * at + ms, 0) + more, op, n) for more in range(times)])
        for at_ms in accumulate(spans_ms, initial=110):
            found.append([("b", at_ms, "count", 0), ("a", at_ms - DELAY_MS, look, 0)])
        return found

    return st.builds(timed, st.lists(each, max_size=5), spans)


class PutsLater(LargeScripted):
    """Its timers may be earlier than what it wrote, and write with their own time."""

    def do(self, op: str, n: int, ctx: Any) -> Any:
        if op == "past":
            ctx.timer(f"{n}", ctx.timestamp_ms - 42)
        yield from super().do(op, n, ctx)

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        yield from self.do("put", int(name or 0), ctx)


@contextmanager
def merging(taken: Sequence[int]) -> Iterator[None]:
    """A batch that writes to a table merges so many of its newest runs, in turn."""
    turns = cycle(taken)

    def runs_taken(_: object, fresh: int, runs: Sequence[int], *__: int, **___: bool) -> int:
        return min(len(runs), next(turns)) if fresh and runs else 0

    with patch.object(MergePolicy, "runs_taken", runs_taken):
        yield


def check_entries(function: LargeScripted, found: list[list[Record]], taken: list[int]) -> None:
    tested = FunctionHarness(
        SCHEMA,
        key="key",
        function=function,
        output=OUTPUT,
        event_time="t",
        columns=["op", "n"],
        delay=timedelta(milliseconds=DELAY_MS),
        policy=Policy(),
        in_order=False,
    )
    with large(0, 4), merging(taken):
        rows = [each for batch in found for each in tuples(tested.batch([*map(row, batch)]))]
    assert Counter(rows) == Counter(expected(function, Policy(), found, DELAY_MS)[0])


@by_cases("cases", 24)
def test_lives_that_are_over_stay_so_whatever_runs_are_merged(cases: int) -> None:
    operations = batches(("count", "quiet", "forget", "sum"), "look")

    @settings(max_examples=cases)
    @given(POLICIES, operations, TAKEN)
    def checked(policy: Policy, found: list[list[Record]], taken: list[int]) -> None:
        with merging(taken):
            check(Scripted(), policy, [*found, [], []], DELAY_MS)

    checked()


@by_cases("cases", 24)
def test_entries_that_are_gone_stay_so_whatever_runs_are_merged(cases: int) -> None:
    operations = batches(("put", "remove", "past", "count"), "entries")

    @settings(max_examples=cases)
    @given(st.sampled_from([None, 40, 100]), operations, TAKEN)
    def checked(ttl_ms: int | None, found: list[list[Record]], taken: list[int]) -> None:
        check_entries(PutsLater(ttl_ms), [*found, []], taken)

    checked()


def test_a_life_whose_timer_removed_all_of_it_does_not_come_back() -> None:
    counted = [("a", at, "count", 0) for at in range(3)]
    quiet, later = [("a", 10, "quiet", 9)], [("b", 300, "count", 0)]
    with merging([0, 0, 2]):
        check(Scripted(), Policy(), [counted, quiet, later, [], [("c", 301, "count", 0)]], DELAY_MS)


@pytest.mark.parametrize("taken", [[0, 0, 0, 3], [0, 1, 0, 2]])
def test_a_life_that_was_over_does_not_come_back_when_one_begun_before_it_ends(
    taken: list[int],
) -> None:
    first, over, late = ("a", 100, "count", 0), ("a", 101, "forget", 0), ("a", 60, "sum", 3)
    later = [[("b", 230, "count", 0)], [], [("c", 231, "count", 0)]]
    with merging(taken):
        check(Scripted(), Policy(ttl_ms=100), [[first], [over], [late], *later], DELAY_MS)


@pytest.mark.parametrize("taken", [[0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 1, 0, 0, 1]])
def test_an_entry_that_was_removed_does_not_come_back_when_an_earlier_one_ends(
    taken: list[int],
) -> None:
    found = [
        [("a", 100, "put", 0), ("a", 100, "put", 1)],
        [("a", 101, "remove", 0)],
        [("a", 102, "past", 6)],
        [("a", 103, "count", 0)],
        [("b", 225, "count", 0)],
        [("a", 166, "put", 2)],
        [("a", 167, "entries", 1)],
    ]
    check_entries(PutsLater(100), found, taken)
