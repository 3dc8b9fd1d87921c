"""Functions on two inputs: against the slow model, in whatever order and batches records come."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlestate import KeyedCoProcessFunction, KeyedProcessFunction, Policy, TimeDomain
from idlestate.errors import RefusedError
from idlestate.state import ValueStateDescriptor
from idlestate.testing import CoFunctionHarness, FakeClock, FunctionHarness, check_cuts
from tests.function_reference import Model
from tests.functions.scripted import OPERATIONS, OUTPUT, Scripted
from tests.functions.test_function_law import BASE_MS, EPOCH, POLICIES
from tests.lengths import law

LEFT = {
    "key": pa.string(),
    "t": pa.timestamp("us", "UTC"),
    "op": pa.string(),
    "n": pa.int32(),
}
RIGHT = {
    "key": pa.string(),
    "moment": pa.timestamp("us", "UTC"),
    "word": pa.string(),
    "n": pa.int32(),
}
Record = tuple[str, str, int, str, int]
"""Input, key, time, operation, number."""
RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from("aab"),
        st.integers(0, 150),
        st.sampled_from(OPERATIONS),
        st.integers(0, 9),
    ),
    max_size=40,
)


class TwoSided(Scripted, KeyedCoProcessFunction):
    """Left records do what they say; right ones too, with another number, and say so."""

    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield from self.do(row.op, row.n, ctx)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield (ctx.key, f"right {row.word}", ctx.timestamp_ms, "")
        yield from self.do(row.word, row.n + 1, ctx)

    def process_element(self, row: Any, ctx: Any) -> Any:
        """For the model, which gives a name to the method."""
        if hasattr(row, "method"):
            return getattr(self, row.method)(row, ctx)
        return KeyedCoProcessFunction.process_element(self, row, ctx)


FUNCTIONS = st.builds(TwoSided, st.none() | st.integers(5, 60), renews=st.booleans())


def pair(record: Record) -> tuple[str, dict[str, Any]]:
    name, key, t_ms, op, n = record
    at = EPOCH + timedelta(milliseconds=BASE_MS + t_ms)
    if name == "left":
        return name, {"key": key, "t": at, "op": op, "n": n}
    return name, {"key": key, "moment": at, "word": op, "n": n}


def harness(function: Any, policy: Policy, **more: Any) -> CoFunctionHarness:
    return CoFunctionHarness(
        LEFT,
        RIGHT,
        **{
            "key": "key",
            "function": function,
            "output": OUTPUT,
            "event_time": "t",
            "right_event_time": "moment",
            "columns": ["op", "n"],
            "right_columns": ["n", "word"],
            "policy": policy,
            **more,
        },
    )


def by_the_model(function: TwoSided, policy: Policy, records: list[Record]) -> Model:
    model = Model(function, list(function.states.values()), policy)
    for name, key, t_ms, op, n in sorted(records, key=in_turn):
        method = "process_element1" if name == "left" else "process_element2"
        row = SimpleNamespace(method=method, op=op, word=op, n=n)
        model.record(key, BASE_MS + t_ms, row)
    return model


def in_turn(record: Record) -> Any:
    """Left before right at one time; then the values in order of the columns."""
    name, _, t_ms, op, n = record
    return (t_ms, name, *((op, n) if name == "left" else (n, op)))


def cut(records: list[Record], at: set[int]) -> list[list[Record]]:
    bounds = [0, *sorted(each for each in at if each < len(records)), len(records)]
    return [records[a:b] for a, b in pairwise(bounds)]


def on_time(batches: list[list[Record]], delays_ms: dict[str, int]) -> list[Record]:
    """The records that are not late: the watermark is that of the input further behind."""
    kept: list[Record] = []
    highest: dict[str, int] = {}
    limit_ms = -1
    for batch in batches:
        kept += [each for each in batch if each[2] > limit_ms]
        for name, _, t_ms, _, _ in batch:
            # A late row counts for no watermark, but it is not the highest one either.
            highest[name] = max(highest.get(name, 0), t_ms)
        if len(highest) == len(delays_ms):
            reached = min(highest[name] - delay - 1 for name, delay in delays_ms.items())
            limit_ms = max(limit_ms, reached)
    return kept


def check(
    function: TwoSided,
    policy: Policy,
    records: list[Record],
    cuts: set[int],
    delays_ms: tuple[int, int],
) -> None:
    tested = harness(
        function,
        policy,
        delay=timedelta(milliseconds=delays_ms[0]),
        right_delay=timedelta(milliseconds=delays_ms[1]),
    )
    batches, found = cut(records, cuts), []
    for batch in batches:
        tested.restart()
        found += tested.batch([pair(each) for each in batch])
    found += tested.finish()
    kept = on_time(batches, dict(zip(("left", "right"), delays_ms, strict=True)))
    model = by_the_model(function, policy, kept)
    model.sweep(BASE_MS + max((each[2] for each in kept), default=0))
    assert Counter(tuple(each.values()) for each in found) == Counter(model.rows)
    assert {each["key"] for each in tested.lives()} == set(model.lives)


@law(
    24,
    FUNCTIONS,
    POLICIES,
    RECORDS,
    st.sets(st.integers(0, 40), max_size=8),
    st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
def test_two_inputs_give_what_the_model_gives_in_whatever_order_and_batches_they_come(
    function: TwoSided,
    policy: Policy,
    records: list[Record],
    cuts: set[int],
    delays_ms: tuple[int, int],
) -> None:
    check(function, policy, records, cuts, delays_ms)


@settings(max_examples=25)
@given(FUNCTIONS, POLICIES, RECORDS, st.sets(st.integers(0, 40), max_size=8))
def test_keys_of_two_inputs_behind_equal_hashes_are_told_apart(
    function: TwoSided, policy: Policy, records: list[Record], cuts: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "idlestate.pipeline.marked_table.hash_keys",
            lambda keys: np.zeros(len(keys[0]), dtype=np.int64),
        )
        check(function, policy, records, cuts, (200, 200))


def test_left_comes_before_right_at_the_same_time_whichever_came_first() -> None:
    right, left = ("right", "a", 5, "look", 0), ("left", "a", 5, "count", 0)
    for batches in ([[right, left]], [[right], [left]], [[left], [right]]):
        tested = harness(TwoSided(), Policy(), delay="1s")
        rows = [row for batch in batches for row in tested.batch([*map(pair, batch)])]
        rows += tested.finish()
        assert [row["what"] for row in rows] == ["right look", "look"]
        assert rows[1]["state"].startswith("[1,")


class Sums(KeyedCoProcessFunction):
    """Rows of the same columns on both sides."""

    total = ValueStateDescriptor(name="total", value_type=pa.int64(), default=0)

    def process_element1(self, row: Any, ctx: Any) -> Any:
        if row.n is None:
            raise ValueError("no number")
        total = ctx.state(self.total)
        total.update(total.value() + row.n)
        yield ctx.key, total.value()

    def process_element2(self, row: Any, ctx: Any) -> Any:
        if row.n < 0:
            yield ctx.key
        total = ctx.state(self.total)
        total.update(total.value() - row.n)
        yield ctx.key, total.value()


COMMON = {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "n": pa.int64()}


def sums(**more: Any) -> CoFunctionHarness:
    return CoFunctionHarness(
        more.pop("left", COMMON),
        more.pop("right", COMMON),
        **{"key": "k", "function": Sums(), "output": "k string, total bigint", **more},
    )


def given_row(second: int, n: int | None) -> dict[str, Any]:
    return {"k": "a", "t": EPOCH + timedelta(days=20, seconds=second), "n": n}


def test_without_order_and_in_processing_time_records_count_as_they_come() -> None:
    tested = sums(policy=Policy(ttl="10s", time=TimeDomain.PROCESSING), clock=FakeClock(1_000))
    assert [row["total"] for row in tested.batch([("right", given_row(0, 3))])] == [-3]
    assert [row["total"] for row in tested.batch([("left", given_row(0, 5))])] == [2]
    assert tested.clock is not None
    tested.clock.advance(10_000)
    assert [row["total"] for row in tested.batch([("left", given_row(0, 5))])] == [5]
    tested = sums(policy=Policy(), event_time="t", in_order=False)
    assert tested.batch([("right", given_row(9, 3))]) == [{"k": "a", "total": -3}]


def test_a_record_that_fails_names_its_method_and_is_rejected_with_its_own_columns() -> None:
    tested = sums(policy=Policy(), event_time="t", in_order=False)
    with pytest.raises(RefusedError, match=r"Sums\.process_element1 raised ValueError: no number"):
        tested.batch([("left", given_row(1, None))])
    with pytest.raises(RefusedError, match=r"Sums\.process_element2 yielded 'a'"):
        tested.batch([("right", given_row(1, -1))])
    tested = sums(policy=Policy(), event_time="t", in_order=False, rejects=True, on_error="reject")
    rows = tested.batch([("left", given_row(1, 7)), ("right", given_row(2, -1))])
    assert rows[0]["total"] == 7
    assert rows[1]["reason"] == "function_error"
    assert '"method": "process_element2"' in rows[1]["rejected"].replace("Sums.", "")
    assert '"n": -1' in rows[1]["rejected"]


def test_an_input_that_is_idle_no_longer_holds_the_other_back() -> None:
    clock = FakeClock(0)
    tested = sums(
        policy=Policy(), event_time="t", idle_after={"right": "1m"}, max_ahead="400d", clock=clock
    )
    clock.advance(round((EPOCH + timedelta(days=20)).timestamp() * 1000))
    found = [tested.batch([("right", given_row(0, 1)), ("left", given_row(1, 1))])]
    for second in (10, 50, 90, 130, 170):
        clock.advance(40_000)
        found.append(tested.batch([("left", given_row(second, 1))]))
    assert [len(rows) for rows in found] == [0, 0, 0, 0, 0, 5]


def test_cuts_are_checked_over_both_inputs() -> None:
    records = [("left", given_row(1, 1)), ("right", given_row(1, 2)), ("left", given_row(3, 3))]
    check_cuts(lambda: sums(policy=Policy(), event_time="t", delay="5s"), records, runs=5)
    with pytest.raises(AssertionError, match=r"\('right', \{'k': 'a'"):
        check_cuts(
            lambda: sums(policy=Policy(), event_time="t", in_order=False, delay="5s"),
            records[::-1],
            runs=5,
        )


class OneInput(KeyedProcessFunction):
    pass


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"function": OneInput()}, "pass an object of a class derived from KeyedCoProcess"),
        ({"right": {**COMMON, "n": pa.string()}}, "column n is of type bigint in the left input"),
        ({"right": {"t": COMMON["t"]}}, "key column k of the right input not found"),
        ({"right_event_time": "when"}, "column when not found"),
        ({"columns": ["m"]}, "columns"),
        ({"right_columns": ["m"]}, "right_columns"),
        ({"idle_after": {"middle": "1m"}}, "middle is not an input; the inputs are left and right"),
        ({"on_error": "reject"}, "needs rejects=True"),
        ({"right": {**COMMON, "__input": pa.int8()}}, "column __input is added to the rows"),
        ({"output": "k string, Input int", "rejects": True}, "output column Input is added by"),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        sums(**{"policy": Policy(), "event_time": "t", **changed})
    with pytest.raises(RefusedError, match="is for two inputs; pass it to co_process"):
        FunctionHarness(
            COMMON, key="k", function=Sums(), output="k string", event_time="t", policy=Policy()
        )


def test_a_row_of_an_unknown_input_is_refused() -> None:
    with pytest.raises(RefusedError, match="'middle' is not an input"):
        sums(policy=Policy(), event_time="t").batch([("middle", given_row(1, 1))])
