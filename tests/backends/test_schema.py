"""Runs that were written with other columns than the table has today."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.run import Run
from idlestate.backends.runs.run_codec import decode_run
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.runs.table_schema import TableSchema, widens
from idlestate.backends.shards.aggregates import bind
from idlestate.backends.shards.aggregation import Aggregation
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy

KEYS = (("k", pa.string()),)
POLICY = Policy(ttl_ms=1_000)
OLD_TYPES = {"x": pa.int32(), "d": pa.decimal128(10, 2)}
NEW_TYPES = {"x": pa.int64(), "d": pa.decimal128(14, 2)}
OLD_TEXTS = {"n": "count", "top": "max(x)", "sum": "sum(d)"}
OLD = TableSpec(KEYS, Aggregation(bind(OLD_TEXTS, OLD_TYPES)))


def new_spec() -> TableSpec:
    """`n` is dropped, `top` and `sum` are wider, `last` is added."""
    top, total, last = bind({"top": "max(x)", "sum": "sum(d)", "last": "last(x)"}, NEW_TYPES)
    kept = (replace(last, id=3), replace(top, id=1), replace(total, id=2))
    return TableSpec(KEYS, Aggregation(kept))


def greatest(kind: pa.DataType) -> TableSpec:
    texts = {"n": "max(x)", "top": "max(d)"}
    return TableSpec(KEYS, Aggregation(bind(texts, {"x": pa.int32(), "d": kind})))


def steps(spec: TableSpec, keys: list[str], x: int, t_ms: int) -> Steps:
    inputs = spec.kind.inputs
    columns = {
        "x": pa.array([x] * len(keys), inputs["x"]),
        "d": pa.array([Decimal(x % 100)] * len(keys), inputs["d"]),
    }
    names = [pa.array(keys)]
    return Steps.from_records(spec, names, np.full(len(keys), t_ms), columns)


def rewritten(runs: Runs, schema: TableSchema) -> Runs:
    """The runs opened again with another schema."""

    def reread(run: Run) -> Run:
        return decode_run(run.source, schema, run.batch_id)

    return replace(runs, schema=schema, runs=tuple(reread(run) for run in runs.runs))


def changed() -> ShardTable:
    """A table of the old columns, three keys in one run, opened with the new ones."""
    table = ShardTable.empty(OLD)
    table = table.apply(steps(OLD, ["a", "b", "c"], 5, 0), POLICY, None, 0, MergePolicy()).table
    spec = new_spec()
    return replace(table, spec=spec, current=rewritten(table.current, spec.schema))


def shown(table: ShardTable) -> list[dict[str, object]]:
    rows = table.lives(POLICY).select(["k", "last", "top", "sum"]).to_pylist()
    return sorted(rows, key=lambda row: str(row["k"]))


def row(key: str, last: int | None, value: int) -> dict[str, object]:
    return {"k": key, "last": last, "top": value, "sum": Decimal(value).quantize(Decimal("0.01"))}


def test_columns_that_a_run_lacks_are_blank_and_narrow_ones_widen():
    assert shown(changed()) == [row("a", None, 5), row("b", None, 5), row("c", None, 5)]


def test_a_life_that_goes_on_gets_the_new_columns():
    table = (
        changed()
        .apply(steps(new_spec(), ["b"], 2**40, 10), POLICY, None, 1, MergePolicy(dense=9.0))
        .table
    )
    assert len(table.current.runs) == 2
    assert shown(table)[0] == row("a", None, 5)
    assert shown(table)[1] == row("b", 2**40, 2**40) | {"sum": Decimal(5 + 2**40 % 100)}


def test_a_merge_writes_the_new_columns():
    table = changed()
    outcome = table.apply(steps(new_spec(), ["b"], 7, 10), POLICY, None, 1, MergePolicy(dense=0.0))
    (run,) = outcome.table.current.runs
    names = run.stored.layout.schema.names
    assert "a0_0" not in names
    assert {"a1_0", "a2_0", "a3_0", "a3_1"} <= set(names)
    assert [each["top"] for each in shown(outcome.table)] == [5, 7, 5]


def test_a_merge_writes_decimals_with_the_new_scale():
    """Which are as wide in a row as the old ones."""
    table = ShardTable.empty(greatest(pa.decimal128(10, 2)))
    table = table.apply(steps(table.spec, ["a", "b"], 5, 0), POLICY, None, 0, MergePolicy()).table
    spec = greatest(pa.decimal128(14, 4))
    table = replace(table, spec=spec, current=rewritten(table.current, spec.schema))
    table = table.apply(steps(spec, ["c"], 7, 10), POLICY, None, 1, MergePolicy(dense=0.0)).table
    assert len(table.current.runs) == 1
    found = table.lives(POLICY).select(["k", "top"]).to_pylist()
    assert {each["k"]: each["top"] for each in found} == {"a": 5, "b": 5, "c": 7}


def test_an_expire_row_of_an_old_life_has_the_new_columns():
    outcome = changed().apply(Steps.empty(new_spec()), POLICY, 1_000, 1, MergePolicy())
    found = outcome.changes.select(["k", "change", "last", "top"]).to_pylist()
    assert {(each["k"], each["change"], each["last"], each["top"]) for each in found} == {
        (key, "expire", None, 5) for key in "abc"
    }


@pytest.mark.parametrize(
    ("stored", "kind", "is_wider"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False),
        (pa.int32(), pa.float64(), False),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), True),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), True),
        (pa.decimal128(10, 2), pa.decimal128(11, 4), False),
        (pa.decimal128(10, 2), pa.decimal128(12, 1), False),
        (pa.string(), pa.string(), True),
        (pa.string(), pa.int64(), False),
    ],
)
def test_what_is_wider(stored: pa.DataType, kind: pa.DataType, is_wider: bool):
    assert widens(stored, kind) is is_wider
