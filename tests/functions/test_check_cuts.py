"""`check_cuts` finds results that depend on batches, and says so with the fewest records."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from idlestate import BatchedProcessFunction, KeyedProcessFunction, Policy
from idlestate.errors import RefusedError
from idlestate.state import ValueStateDescriptor
from idlestate.testing import FunctionHarness, RetainHarness, check_cuts

SCHEMA = {"key": pa.string(), "t": pa.timestamp("us", "UTC"), "n": pa.int64()}
BEGIN = datetime(2025, 3, 3, tzinfo=UTC)
POLICY = Policy(idle_min="20s", idle_max="30s", min_gap="0s")
NUMBERS = itertools.count()
LAST = ValueStateDescriptor(name="last", value_type=pa.int64(), default=0)


def row(second: int, n: int, key: str = "k") -> dict[str, Any]:
    return {"key": key, "t": BEGIN + timedelta(seconds=second), "n": n}


RECORDS = [row(at, at % 7, "kl"[at % 2]) for at in (3, 1, 0, 2, 9, 8, 14, 11, 12, 30, 29, 90, 91)]


class Steps(KeyedProcessFunction):
    """Reports what each record adds to the one before it."""

    last = LAST

    def process_element(self, row: Any, ctx: Any) -> Any:
        last = ctx.state(self.last)
        yield ctx.key, row.n - last.value(), ctx.timestamp_ms
        last.update(row.n)


class Remembering(Steps):
    """Keeps a count in itself, which a restart forgets."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.seen[ctx.key] = self.seen.get(ctx.key, 0) + 1
        yield ctx.key, self.seen[ctx.key], ctx.timestamp_ms
        ctx.state(self.last).update(row.n)


def functions(function: Any, *, in_order: bool, delay: str = "5s") -> Callable[[], FunctionHarness]:
    return lambda: FunctionHarness(
        SCHEMA,
        key="key",
        function=function,
        output="key string, step bigint, at_ms bigint",
        event_time="t",
        delay=delay,
        policy=POLICY,
        in_order=in_order,
    )


def test_rows_in_order_pass() -> None:
    check_cuts(functions(Steps(), in_order=True), RECORDS, runs=20)


def test_records_may_be_a_table_and_each_run_needs_its_own_harness() -> None:
    table = pa.Table.from_pylist(RECORDS, pa.schema(SCHEMA))
    check_cuts(functions(Steps(), in_order=True), table, runs=1)
    one = functions(Steps(), in_order=True)()
    with pytest.raises(RefusedError, match="make returns the same harness twice"):
        check_cuts(lambda: one, RECORDS)


def test_arrival_that_counts_is_found_with_the_fewest_records() -> None:
    with pytest.raises(AssertionError) as raised:
        check_cuts(functions(Steps(), in_order=False), RECORDS)
    text = str(raised.value)
    assert text.startswith("results depend on how records are divided into batches\nbatch 0:")
    assert text.count("{'key': ") >= 2
    assert len([line for line in text.splitlines() if line.startswith("  ")]) == 2
    assert "rows only in these batches" in text


def test_what_a_function_keeps_in_itself_is_found() -> None:
    with pytest.raises(AssertionError, match="rows only if all records are one batch"):
        check_cuts(functions(Remembering(), in_order=True), RECORDS)


class Random(Steps):
    """Yields another number each time."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield ctx.key, next(NUMBERS), 0


def test_a_function_whose_results_depend_on_more_than_records_is_found() -> None:
    with pytest.raises(AssertionError) as raised:
        check_cuts(functions(Random(), in_order=True), RECORDS, runs=1)
    text = str(raised.value)
    assert text.startswith("results differ between two runs of the same batch: they depend")
    assert "rows only in the first run" in text
    assert "many keys" not in text


def test_records_that_would_be_late_are_refused() -> None:
    with pytest.raises(RefusedError, match=r"record 2 .* is late if each record is a batch"):
        check_cuts(functions(Steps(), in_order=True, delay="2s"), RECORDS)


def test_aggregates_of_retain_pass_although_their_updates_differ() -> None:
    check_cuts(
        lambda: RetainHarness(
            SCHEMA,
            key="key",
            aggregates={"n": "count", "total": "sum(n)"},
            event_time="t",
            delay="5s",
            policy=POLICY,
            in_order=True,
        ),
        RECORDS,
        runs=20,
    )


class BothForms(BatchedProcessFunction):
    """`Steps` for many keys, with a form of one key; the class below gets the latter wrong."""

    last = LAST

    def process_batch(self, rows: Any, ctx: Any) -> Any:
        last, n = ctx.state(self.last), rows.n.to_numpy()
        found = {"key": ctx.keys, "step": n - last.value(), "at_ms": ctx.timestamps_ms}
        last.update(n)
        return found

    process_element = Steps.process_element


class Disagreeing(BothForms):
    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.n < 6:
            yield from super().process_element(row, ctx)


def test_both_forms_of_a_function_are_compared() -> None:
    check_cuts(functions(BothForms(), in_order=True), RECORDS, runs=10)
    with pytest.raises(AssertionError) as raised:
        check_cuts(functions(Disagreeing(), in_order=True), RECORDS, runs=10)
    text = str(raised.value)
    assert text.startswith(
        "the methods of one key and of many keys give different results\nbatch 0:"
    )
    assert len([line for line in text.splitlines() if line.startswith("  ")]) == 1
    assert "rows only of the methods of many keys" in text


def test_the_arguments_that_a_function_needs_are_named() -> None:
    with pytest.raises(RefusedError, match="lacks key and output"):
        check_cuts(KeyedProcessFunction(), [{"user": "a"}])
    with pytest.raises(RefusedError, match="lacks output"):
        check_cuts(KeyedProcessFunction(), [{"user": "a"}], key="user")
