"""Functions against the slow model: whatever records do, however they are cut into batches."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from idlestate import Policy
from idlestate.testing import FunctionHarness
from tests.function_reference import Model
from tests.functions.scripted import OPERATIONS, OUTPUT, Scripted
from tests.lengths import law

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BASE_MS = 86_400_000 * 10
SCHEMA = {
    "key": pa.string(),
    "t": pa.timestamp("us", "UTC"),
    "op": pa.string(),
    "n": pa.int32(),
}
POLICIES = st.sampled_from(
    [
        Policy(),
        Policy(idle_min_ms=30, idle_max_ms=45, min_gap="0s"),
        Policy(ttl_ms=40),
        Policy(max_lifetime_ms=60),
        Policy(idle_min_ms=20, idle_max_ms=50, ttl_ms=45, max_lifetime_ms=90, min_gap="0s"),
    ]
)
RECORDS = st.lists(
    st.tuples(
        st.sampled_from("aaab"), st.integers(0, 150), st.sampled_from(OPERATIONS), st.integers(0, 9)
    ),
    max_size=40,
)
FUNCTIONS = st.builds(Scripted, st.none() | st.integers(5, 60), renews=st.booleans())
Record = tuple[str, int, str, int]


def row(record: Record) -> dict[str, Any]:
    key, t_ms, op, n = record
    return {"key": key, "t": EPOCH + timedelta(milliseconds=BASE_MS + t_ms), "op": op, "n": n}


def harness(
    function: Scripted, policy: Policy, delay_ms: int = 0, *, in_order: bool = False
) -> FunctionHarness:
    return FunctionHarness(
        SCHEMA,
        key="key",
        function=function,
        output=OUTPUT,
        event_time="t",
        columns=["op", "n"],
        delay=timedelta(milliseconds=delay_ms),
        policy=policy,
        in_order=in_order,
    )


def expected(
    function: Scripted, policy: Policy, batches: Sequence[Sequence[Record]], delay_ms: int
) -> tuple[list[tuple[Any, ...]], Model]:
    """Rows and lives by the model; each batch is judged by the watermark of those before it."""
    model = Model(function, list(function.states.values()), policy)
    watermark_ms = 0
    for batch in batches:
        rows = [each for each in batch if BASE_MS + each[1] > watermark_ms]
        for key, t_ms, op, n in sorted(rows, key=lambda each: (each[1], each[2], each[3])):
            model.record(key, BASE_MS + t_ms, SimpleNamespace(op=op, n=n))
        model.sweep(watermark_ms)
        highest_ms = max((BASE_MS + each[1] for each in batch), default=0)
        watermark_ms = max(watermark_ms, highest_ms - delay_ms - 1)
    return model.rows, model


def tuples(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(each.values()) for each in rows]


def check(
    function: Scripted, policy: Policy, batches: Sequence[Sequence[Record]], delay_ms: int
) -> None:
    tested = harness(function, policy, delay_ms)
    found = [each for batch in batches for each in tuples(tested.batch([*map(row, batch)]))]
    rows, model = expected(function, policy, batches, delay_ms)
    assert Counter(found) == Counter(rows)
    lives = {each["key"]: each for each in tested.lives()}
    assert set(lives) == set(model.lives)
    for key, life in model.lives.items():
        shown = lives[key]
        cells = life["cells"]
        held = {name: [item[1] for item in cell.items] for name, cell in cells.items()}
        assert [shown["count"]] == (held["count"] or [None])
        assert (shown["list"] or []) == held["list"]
        assert dict(shown["map"] or {}) == {item[0]: item[1] for item in cells["map"].items}
        assert [shown["sum"]] == (held["sum"] or [None])
        assert [shown["mean"]] == (held["mean"] or [None])
        timers = sorted(
            (at, name if isinstance(name, str) else "") for name, at in life["timers"].items()
        )
        assert [(each["at_ms"], each["name"] or "") for each in shown["timers"] or []] == timers


def cut(records: list[Record], at: set[int]) -> list[list[Record]]:
    bounds = [0, *sorted(each for each in at if each < len(records)), len(records)]
    return [records[begin:end] for begin, end in pairwise(bounds)]


@law(
    30,
    FUNCTIONS,
    POLICIES,
    RECORDS,
    st.sets(st.integers(0, 40), max_size=8),
    st.integers(0, 60),
)
def test_a_function_does_what_the_model_does(
    function: Scripted, policy: Policy, records: list[Record], cuts: set[int], delay_ms: int
) -> None:
    check(function, policy, [*cut(records, cuts), [], []], delay_ms)


def test_a_life_that_left_nothing_does_not_delay_the_records_after_it() -> None:
    late = [("a", 73, "unquiet", 0), ("a", 74, "count", 0), ("a", 119, "count", 0)]
    policy = Policy(idle_min_ms=30, idle_max_ms=45, min_gap_ms=0)
    check(Scripted(None, renews=False), policy, [[("a", 75, "quiet", 0)], late, [], []], 2)


def test_a_timer_after_the_end_of_its_life_does_not_fire() -> None:
    records = [("a", 0, "count", 0), ("a", 1, "quiet", 9)]
    later = [("b", 100, "count", 0)]
    check(Scripted(None, renews=False), Policy(ttl_ms=40), [records, later, [], []], 0)


def test_records_of_one_time_come_in_order_of_their_values_not_of_arrival() -> None:
    records = [("a", 0, "map", 3), ("a", 0, "map", 0)]  # both write the entry k0
    check(Scripted(None, renews=False), Policy(), [records, [], []], 0)


@law(15, FUNCTIONS, POLICIES, RECORDS, st.sets(st.integers(0, 40), max_size=8))
def test_keys_behind_equal_hashes_are_told_apart(
    function: Scripted, policy: Policy, records: list[Record], cuts: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "idlestate.pipeline.marked_table.hash_keys",
            lambda keys: np.zeros(len(keys[0]), dtype=np.int64),
        )
        check(function, policy, [*cut(records, cuts), []], 0)


@law(18, FUNCTIONS, POLICIES, RECORDS, st.sets(st.integers(0, 40), max_size=8))
def test_records_in_order_give_the_same_however_they_are_cut(
    function: Scripted, policy: Policy, records: list[Record], cuts: set[int]
) -> None:
    ordered = sorted(records, key=lambda each: each[1])
    # Records of one time stay together: those of one batch are put in order, those of two are not.
    at = {
        each for each in cuts if 0 < each < len(ordered) and ordered[each - 1][1] < ordered[each][1]
    }
    results = []
    for batches in (cut(ordered, at), [ordered]):
        tested = harness(function, policy)
        found = [
            each
            for batch in [*batches, [], []]
            for each in tuples(tested.batch([*map(row, batch)]))
        ]
        results.append((Counter(found), sorted(map(repr, tested.lives()))))
    assert results[0] == results[1]


@law(
    30,
    FUNCTIONS,
    POLICIES,
    RECORDS,
    st.sets(st.integers(0, 40), max_size=8),
    st.integers(0, 60),
)
def test_rows_in_order_give_the_same_in_whatever_order_they_arrive(
    function: Scripted, policy: Policy, records: list[Record], cuts: set[int], delay_ms: int
) -> None:
    batches, kept, highest_ms = cut(records, cuts), list[Record](), 0
    for batch in batches:
        limit_ms = highest_ms - delay_ms - 1
        kept += [each for each in batch if each[1] > limit_ms or not highest_ms]
        highest_ms = max([highest_ms, *(each[1] for each in batch)])
    tested = harness(function, policy, delay_ms, in_order=True)
    found = [each for batch in batches for each in tuples(tested.batch([*map(row, batch)]))]
    found += tuples(tested.finish())
    model = Model(function, list(function.states.values()), policy)
    for key, t_ms, op, n in sorted(kept, key=lambda each: each[1:]):
        model.record(key, BASE_MS + t_ms, SimpleNamespace(op=op, n=n))
    model.sweep(BASE_MS + highest_ms)
    assert Counter(found) == Counter(model.rows)
    assert {each["key"] for each in tested.lives()} == set(model.lives)
