"""Functions whose states get another time to live between two batches, against the slow model: what
had expired stays expired, all else goes by the new time to live, whether it is large or merged.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from idlestate import BatchedProcessFunction, KeyedProcessFunction, Policy
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.stored_ttls import StoredTtl, StoredTtls
from idlestate.retention.rules import NEVER_MS
from idlestate.state import StateTtlConfig, ValueStateDescriptor
from idlestate.testing import FunctionHarness
from tests.function_reference import Model
from tests.functions.large_scripted import OPERATIONS, OUTPUT, LargeScripted
from tests.functions.test_function_definitions import changed
from tests.functions.test_function_law import BASE_MS, SCHEMA, Record, cut, row, tuples
from tests.functions.test_large_states_law import large
from tests.lengths import law

POLICIES = st.sampled_from([Policy(), Policy(ttl_ms=100), Policy(max_lifetime_ms=90)])
TTLS = st.lists(st.integers(5, 90), min_size=2, max_size=3)
LIMITS = st.sampled_from([0, 60, 1 << 14])
CUTS = st.sets(st.integers(1, 40), min_size=3, max_size=10)
POINT = pa.struct({"x": pa.int64()})


def records(operations: Sequence[str]) -> st.SearchStrategy[list[Record]]:
    each = st.tuples(
        st.sampled_from("aabc"), st.integers(0, 200), st.sampled_from(operations), st.integers(0, 9)
    )
    return st.lists(each, min_size=4, max_size=40).map(
        lambda found: sorted(found, key=itemgetter(1))
    )


def values(ttls_ms: Sequence[int | None]) -> dict[str, Any]:
    """Two values, each with a time to live or without one."""
    kinds = {"point": POINT, "number": pa.int64()}
    return {
        name: ValueStateDescriptor(
            name=name,
            value_type=kind,
            ttl=None if ttl_ms is None else StateTtlConfig(ttl_ms=ttl_ms),
        )
        for (name, kind), ttl_ms in zip(kinds.items(), ttls_ms, strict=True)
    }


class Values(KeyedProcessFunction):
    def __init__(self, ttls_ms: Sequence[int | None]) -> None:
        self.states = values(ttls_ms)

    def open(self, ctx: Any) -> None:
        for each in self.states.values():
            ctx.state(each)

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.op in self.states:
            value = {"x": row.n} if row.op == "point" else row.n
            ctx.state(self.states[row.op]).update(value)
        elif row.op == "timer":
            ctx.timer("one", ctx.timestamp_ms + 9 * row.n)
        elif row.op == "look":
            yield self.row("look", ctx)

    def on_timer(self, name: str | None, ctx: Any) -> Any:
        yield self.row(f"timer {name}", ctx)

    def row(self, what: str, ctx: Any) -> tuple[Any, ...]:
        shown = [ctx.state(each).value() for each in self.states.values()]
        return (ctx.key, what, ctx.timestamp_ms, repr(shown))


class ValuesBatch(BatchedProcessFunction):
    """Sets the number."""

    def __init__(self, ttls_ms: Sequence[int | None]) -> None:
        self.states = values(ttls_ms)

    def open(self, ctx: Any) -> None:
        for each in self.states.values():
            ctx.state(each)

    def process_batch(self, rows: Any, ctx: Any) -> Any:
        ctx.state(self.states["number"]).update(rows.n)


def harness(function: KeyedProcessFunction, policy: Policy, delay_ms: int = 0) -> FunctionHarness:
    return FunctionHarness(
        SCHEMA,
        key="key",
        function=function,
        output=OUTPUT,
        event_time="t",
        columns=["op", "n"],
        delay=timedelta(milliseconds=delay_ms),
        policy=policy,
        in_order=False,
    )


def change(model: Model, function: Any, at_ms: int) -> None:
    """Go on with a function with other times to live; the old ones were in force until then."""
    model.sweep(at_ms)
    model.function, model.descriptors = function, list(function.states.values())
    model.timestamp_ms = at_ms
    for life in model.lives.values():
        for descriptor in model.descriptors:
            cell, ttl = life["cells"][descriptor.name], descriptor.ttl
            cell.live(read=False)
            if cell.ttl_ms is None:
                for each in cell.items:
                    each[2] = life["written"]
            cell.ttl_ms = None if ttl is None else ttl.ttl_ms
            cell.renews = ttl is not None and ttl.updates_on_read


def check(functions: Sequence[Any], policy: Policy, batches: Any, delay_ms: int) -> None:
    """Batches of which each function takes its share, one after the other."""
    tested, watermark_ms, swept_ms = harness(functions[0], policy, delay_ms), 0, 0
    model = Model(functions[0], list(functions[0].states.values()), policy)
    found = []
    for number, batch in enumerate(batches):
        function = functions[number * len(functions) // len(batches)]
        if function is not model.function:
            tested = changed(tested, harness(function, policy, delay_ms))
            tested._record = ShardRecord.decode(tested._record.encode())
            change(model, function, swept_ms)
        found += tuples(tested.batch([*map(row, batch)]))
        rows = [each for each in batch if BASE_MS + each[1] > watermark_ms]
        for key, t_ms, op, n in sorted(rows, key=lambda each: each[1:]):
            model.record(key, BASE_MS + t_ms, SimpleNamespace(op=op, n=n))
        model.sweep(watermark_ms)
        swept_ms = watermark_ms
        highest_ms = max((BASE_MS + each[1] for each in batch), default=0)
        watermark_ms = max(watermark_ms, highest_ms - delay_ms - 1)
        assert Counter(found) == Counter(model.rows)
        assert {each["key"] for each in tested.lives()} == set(model.lives)


@law(30, TTLS, POLICIES, records(OPERATIONS), CUTS, LIMITS, st.integers(0, 40), st.booleans())
def test_lists_and_maps_go_by_a_changed_ttl_whether_they_are_large(
    ttls_ms: list[int],
    policy: Policy,
    given: list[Record],
    cuts: set[int],
    row_bytes: int,
    delay_ms: int,
    merges: bool,
) -> None:
    with large(row_bytes, 4, [3] if merges else [0]):
        functions = [LargeScripted(ttl_ms) for ttl_ms in ttls_ms]
        check(functions, policy, [*cut(given, cuts), [], []], delay_ms)


@law(
    30,
    st.lists(st.tuples(*[st.none() | st.integers(5, 90)] * 2), min_size=2, max_size=4),
    POLICIES,
    records(["point", "number", "look", "timer", "none"]),
    CUTS,
    st.integers(0, 40),
    st.booleans(),
)
def test_values_get_lose_and_change_their_ttl(
    ttls_ms: list[tuple[int | None, int | None]],
    policy: Policy,
    given: list[Record],
    cuts: set[int],
    delay_ms: int,
    merges: bool,
) -> None:
    with large(1 << 14, 4, [3] if merges else [0]):
        check([*map(Values, ttls_ms)], policy, [*cut(given, cuts), [], []], delay_ms)


@pytest.mark.parametrize("row_bytes", [0, 1 << 14], ids=["large", "small"])
def test_entries_that_had_expired_stay_expired(row_bytes: int) -> None:
    with large(row_bytes, 4):
        first, second = (harness(LargeScripted(each), Policy()) for each in (40, 100))
        first.batch([row(("a", 0, "add_many", 2)), row(("a", 30, "add", 0))])
        first.batch([row(("b", 50, "count", 0))])
        first.batch([])
        (found,) = changed(first, second).batch([row(("a", 70, "elements", 0))])
        assert found["state"] == repr(["e0"])


@pytest.mark.parametrize("ttl_ms", [None, 500], ids=["none", "longer"])
def test_a_value_that_had_expired_stays_expired(ttl_ms: int | None) -> None:
    first = harness(Values((40, 40)), Policy())
    first.batch([row(("a", 0, "point", 1)), row(("a", 1, "number", 2))])
    first.batch([row(("a", 30, "point", 3)), row(("b", 50, "number", 4))])
    first.batch([])
    second = changed(first, harness(Values((ttl_ms, ttl_ms)), Policy()))
    (found,) = second.batch([row(("a", 90, "look", 0))])
    assert found["state"] == repr([{"x": 3}, None])


@pytest.mark.parametrize("function", [Values, ValuesBatch])
@pytest.mark.parametrize("before", [(None, None), (50, 500)], ids=["added", "shorter"])
def test_lives_that_are_over_by_the_new_ttl_are_found_without_a_record(
    function: Any, before: Any
) -> None:
    first = harness(function(before), Policy())
    first.batch([row((key, 0, "number", 1)) for key in "abc"])
    second = changed(first, harness(function((50, 50)), Policy()))
    second.batch([row(("a", 30, "number", 2)), row(("d", 60, "number", 3))])
    assert {each["key"] for each in second.lives()} == set("abcd")
    second.batch([])
    assert {each["key"] for each in second.lives()} == set("ad")
    second.batch([row(("d", 90, "number", 4))])
    second.batch([])
    assert {each["key"] for each in second.lives()} == {"d"}


@pytest.mark.parametrize("function", [Values, ValuesBatch])
def test_a_second_change_writes_all_lives_anew_too(function: Any) -> None:
    """Although the first one has already given them every column that a change may need."""
    tested = harness(function((500, 500)), Policy())
    tested.batch([row((key, 0, "number", 1)) for key in "abc"])
    for ttl_ms, key, at_ms in ((400, "d", 10), (50, "e", 60)):
        tested = changed(tested, harness(function((ttl_ms, ttl_ms)), Policy()))
        tested.batch([row((key, at_ms, "number", 2))])
    tested.batch([])
    assert {each["key"] for each in tested.lives()} == set("de")


def test_only_the_first_batch_after_a_change_writes_all_lives_anew() -> None:
    first = harness(Values((None, None)), Policy())
    first.batch([row((f"k{at}", 0, "number", 1)) for at in range(20)])
    second = changed(first, harness(Values((None, 50)), Policy()))
    with large(1 << 14, 4, [0]):
        second.batch([row(("a", 1, "number", 2))])
        second.batch([row(("b", 2, "number", 3))])
    assert [ref.rows for ref in second._record.current.runs] == [21, 1]


def test_what_another_query_writes_has_not_expired_by_the_time_of_the_one_before() -> None:
    """Its inputs may begin with older rows."""
    ttls = StoredTtls({0: StoredTtl(400)}, swept_ms=5000)
    assert ShardRecord("f", 0, ttls=ttls).for_another_query().ttls.swept_ms == NEVER_MS
