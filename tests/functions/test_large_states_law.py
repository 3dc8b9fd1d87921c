"""Large lists and maps of functions against the slow model, whatever is large and when."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import strategies as st

from idlestate import Policy
from idlestate.backends.runs.compaction import MergePolicy
from idlestate.functions import large_contents, large_states
from idlestate.testing import FunctionHarness
from tests.function_reference import Model
from tests.functions.large_scripted import OPERATIONS, OUTPUT, LargeScripted
from tests.functions.test_function_definitions import changed
from tests.functions.test_function_law import BASE_MS, POLICIES, SCHEMA, Record, cut, row, tuples
from tests.lengths import law

RECORDS = st.lists(
    st.tuples(
        st.sampled_from("aaab"), st.integers(0, 150), st.sampled_from(OPERATIONS), st.integers(0, 9)
    ),
    max_size=40,
)
FUNCTIONS = st.builds(LargeScripted, st.none() | st.integers(5, 60), renews=st.booleans())
LIMITS = st.sampled_from([0, 24, 100])
READS = st.sampled_from([0, 4])
CUTS = st.sets(st.integers(0, 40), max_size=8)


@contextmanager
def large(row_bytes: int, one_read: int, taken: Any = None) -> Iterator[None]:
    """Lists and maps are large above these bytes; `taken` says how many runs a batch merges."""
    with (
        patch.object(large_states, "ROW_BYTES", row_bytes),
        patch.object(large_contents, "ONE_READ", one_read),
    ):
        if taken is None:
            yield
            return

        def runs_taken(_: Any, fresh: int, runs: Sequence[int], live: int, **__: Any) -> int:
            return min(len(runs), taken[(fresh + live) % len(taken)])

        with patch.object(MergePolicy, "runs_taken", runs_taken):
            yield


def harness(function: LargeScripted, policy: Policy, **more: Any) -> FunctionHarness:
    return FunctionHarness(
        SCHEMA,
        key="key",
        function=function,
        output=OUTPUT,
        event_time="t",
        columns=["op", "n"],
        delay="0s",
        policy=policy,
        **{"in_order": True, **more},
    )


def check(
    function: LargeScripted,
    policy: Policy,
    batches: Sequence[Sequence[Record]],
    *,
    restarts: bool = False,
    fails: Sequence[int] = (),
    **more: Any,
) -> None:
    """Rows and lives of batches in order of time; `fails`: before these records one fails."""
    tested, found, number = harness(function, policy, **more), list[Any](), 0
    for batch in batches:
        rows = []
        for each in batch:
            if number in fails:
                rows.append(row((each[0], each[1], "fail", each[3])))
            rows.append(row(each))
            number += 1
        found += tuples(tested.batch(rows))
        if restarts:
            tested.restart()
    found += tuples(tested.finish())
    model = Model(function, list(function.states.values()), policy)
    records = sorted((each for batch in batches for each in batch), key=lambda each: each[1:])
    highest_ms = max((BASE_MS + each[1] for each in records), default=0)
    for key, t_ms, op, n in records:
        model.record(key, BASE_MS + t_ms, SimpleNamespace(op=op, n=n))
    model.sweep(highest_ms)
    if more.get("rejects"):  # only rejected rows fill the two columns
        found = [each[:4] for each in found if each[4] is None]
    assert Counter(found) == Counter(model.rows)
    lives = {each["key"]: each for each in tested.lives()}
    assert set(lives) == set(model.lives)
    for key, life in model.lives.items():
        for name in ("map", "many", "list"):
            shown = lives[key][name] or []
            cell = life["cells"][name]
            named = [(each[0], each[1]) if name != "list" else each[1] for each in cell.items]
            # Of what has expired, some may have been removed.
            ttl_ms = cell.ttl_ms
            live = [
                item
                for item, each in zip(named, cell.items, strict=True)
                if ttl_ms is None or each[2] + ttl_ms > highest_ms
            ]
            assert [each for each in shown if each in live] == live
            assert all(each in named for each in shown)


def in_time(records: list[Record], cuts: set[int]) -> list[list[Record]]:
    """Batches in order of time; records of one time stay together."""
    ordered = sorted(records, key=lambda each: each[1])
    at = {
        each for each in cuts if 0 < each < len(ordered) and ordered[each - 1][1] < ordered[each][1]
    }
    return cut(ordered, at)


@law(18, FUNCTIONS, POLICIES, RECORDS, CUTS, LIMITS, READS, st.booleans())
def test_large_states_do_what_the_model_does(
    function: LargeScripted,
    policy: Policy,
    records: list[Record],
    cuts: set[int],
    row_bytes: int,
    one_read: int,
    restarts: bool,
) -> None:
    with large(row_bytes, one_read):
        check(function, policy, in_time(records, cuts), restarts=restarts)


@law(
    30,
    *(FUNCTIONS, POLICIES, RECORDS, CUTS, LIMITS, READS),
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
)
def test_results_do_not_depend_on_merges(
    function: LargeScripted,
    policy: Policy,
    records: list[Record],
    cuts: set[int],
    row_bytes: int,
    one_read: int,
    taken: list[int],
) -> None:
    with large(row_bytes, one_read, taken):
        check(function, policy, in_time(records, cuts))


@law(12, FUNCTIONS, POLICIES, RECORDS, CUTS, LIMITS)
def test_entries_behind_equal_hashes_are_told_apart(
    function: LargeScripted,
    policy: Policy,
    records: list[Record],
    cuts: set[int],
    row_bytes: int,
) -> None:
    def nothing(keys: Any) -> Any:
        return np.zeros(len(keys[0]), dtype=np.int64)

    with (
        large(row_bytes, 0),
        patch("idlestate.pipeline.marked_table.hash_keys", nothing),
        patch("idlestate.backends.runs.entry_places.hash_keys", nothing),
    ):
        check(function, policy, in_time(records, cuts))


@law(
    30,
    *(FUNCTIONS, POLICIES, RECORDS, CUTS, LIMITS, READS),
    st.sets(st.integers(0, 40), min_size=1, max_size=5),
)
def test_calls_that_fail_leave_large_states_as_they_were(
    function: LargeScripted,
    policy: Policy,
    records: list[Record],
    cuts: set[int],
    row_bytes: int,
    one_read: int,
    fails: set[int],
) -> None:
    with large(row_bytes, one_read):
        batches = in_time(records, cuts)
        check(function, policy, batches, fails=[*fails], rejects=True, on_error="reject")


def entries(tested: FunctionHarness) -> dict[str, int]:
    tables = tested._record.tables
    return {name: each.live for name, each in tables.items() if name.startswith("entries")}


@pytest.mark.parametrize("op", ["forget", "clear_list"])
def test_no_entry_is_left_of_what_is_over(op: str) -> None:
    with large(0, 4):
        tested = harness(LargeScripted(), Policy(ttl_ms=40), in_order=False)
        tested.batch([row(("a", at, "add_many", 5)) for at in range(3)])
        assert entries(tested)["entries2"] == 15
        tested.batch([row(("a", 10, op, 0))])
        assert entries(tested)["entries2"] == 0


def test_no_entry_is_left_of_a_life_that_expired() -> None:
    with large(0, 4):
        tested = harness(LargeScripted(), Policy(ttl_ms=40), in_order=False)
        tested.batch([row(("a", at, op, 5)) for at, op in enumerate(("many", "add_many", "put"))])
        assert entries(tested) == {"entries0": 1, "entries1": 5, "entries2": 5}
        tested.batch([row(("b", 100, "count", 0))])
        tested.batch([])
        assert entries(tested) == {"entries0": 0, "entries1": 0, "entries2": 0}


def test_a_put_into_a_large_map_writes_that_entry_alone() -> None:
    with large(100, 300):
        tested = harness(LargeScripted(), Policy(ttl_ms=40), in_order=False)
        tested.batch([row(("a", 0, "many", 9)), row(("a", 1, "more", 30))])
        tested.batch([row(("a", 1, "more", n)) for n in range(100, 400, 2)])
        before = tested._record.table("entries1")
        with large(100, 300, [0]):
            tested.batch([row(("a", 2, "more", 200))])
        after = tested._record.table("entries1")
        assert after.live == before.live
        assert [ref.rows for ref in after.runs[len(before.runs) :]] == [2]


def test_sweeps_remove_entries_that_nobody_asks_for() -> None:
    with large(0, 300):
        tested = harness(LargeScripted(20), Policy(), in_order=False)
        tested.batch([row(("a", 0, "many", 9)), row(("a", 0, "count", 1))])
        tested.batch([row(("b", 19, "put", 1)), row(("a", 19, "put", 1))])
        assert entries(tested)["entries1"] == 9
        tested.batch([row(("b", 21, "put", 1))])
        tested.batch([])
        assert entries(tested)["entries1"] == 0
        # The life continues without them: its other state has not expired.
        (life,) = [each for each in tested.lives() if each["key"] == "a"]
        assert (life["map"], life["many"]) == ([("k1", 1)], None)


@pytest.mark.parametrize("row_bytes", [0, 1 << 14], ids=["large", "small"])
@pytest.mark.parametrize(("ttl_ms", "left"), [(200, 3), (45, 1)], ids=["longer", "shorter"])
def test_entries_go_by_a_changed_ttl(row_bytes: int, ttl_ms: int, left: int) -> None:
    with large(row_bytes, 4):
        before, after = (harness(LargeScripted(each), Policy()) for each in (60, ttl_ms))
        before.batch([row(("a", 0, "add_many", 2)), row(("a", 30, "add", 0))])
        before.batch([row(("b", 50, "count", 0))])
        after = changed(before, after)
        after.batch([row(("b", 69, "count", 0))])
        found = after.batch([row(("a", 70, "elements", 0))]) + after.finish()
        assert [each["state"] for each in found] == [repr(["", "x", "e0"][-left:])]
