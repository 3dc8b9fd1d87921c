"""The law of changed definitions: whatever is added, dropped, renamed and widened between batches,
lives and expired records are those of the slow reference, whose open lives begin what is added
empty and keep the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.run_codec import decode_run
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.definition_change import compare_definitions
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import TimeDomain
from tests.backends.law_runner import plain_rows, policy_of
from tests.compare import assert_rows, assert_states
from tests.lengths import law
from tests.reference import Record, Reference, Rule
from tests.reference_values import accumulator

KEYS = ("a", "b", "c", "d")
NAMES = ("p", "q", "r", "s", "t")
TEXTS = (
    *("count", "count(x)", "sum(x)", "avg(x)", "min(x)", "max(x)"),
    *("first(x)", "last(x)", "max_by(x, y)", "sum(f)", "max(f)"),
    *("stddev_pop(x)", "approx_percentile(x, 0.5)", "approx_count_distinct(f)"),
)
NARROW = {"k": pa.string(), "x": pa.int16(), "y": pa.int32(), "f": pa.float32()}
WIDE = {"k": pa.string(), "x": pa.int64(), "y": pa.int64(), "f": pa.float64()}
RULE = Rule(idle_min_ms=20, idle_max_ms=30)
POLICY = policy_of(RULE)

Row = tuple[str, int, int | None, int, float, bool]
"""Key, milliseconds since the row before, x, y, f, and whether it is a read."""


@dataclass(frozen=True)
class Era:
    """A definition, and the batches that go by it."""

    aggregates: dict[str, str]
    renamed: dict[str, str]
    is_wide: bool
    batches: list[list[Row]]
    merges: bool


@st.composite
def eras(draw: st.DrawFn) -> list[Era]:
    """Definitions that each can take over the state of the one before."""
    rows = st.tuples(
        st.sampled_from(KEYS),
        st.integers(1, 12),
        st.none() | st.integers(-9, 9),
        st.integers(-3, 3),
        st.sampled_from([0.5, -1.25, 3.0]),
        st.booleans(),
    )
    found: list[Era] = []
    aggregates: dict[str, str] = {}
    is_wide = False
    for _ in range(draw(st.integers(2, 5))):
        kept = draw(st.lists(st.sampled_from(sorted(aggregates) or ["p"]), unique=True))
        now = {name: aggregates[name] for name in kept if name in aggregates}
        free = [name for name in NAMES if name not in aggregates]
        renamed: dict[str, str] = {}
        for old in draw(st.permutations(sorted(now))):
            if free and draw(st.booleans()):
                new = free.pop()
                now[new] = now.pop(old)
                renamed[new] = old
        for name in free:
            if not now or draw(st.booleans()):
                now[name] = draw(st.sampled_from(TEXTS))
        if not now:
            now = dict(aggregates)
        is_wide = is_wide or draw(st.booleans())
        order = draw(st.permutations(sorted(now)))
        batches = draw(st.lists(st.lists(rows, max_size=8), min_size=1, max_size=3))
        aggregates = {name: now[name] for name in order}
        found.append(Era(aggregates, renamed, is_wide, batches, draw(st.booleans())))
    return found


def spec_of(era: Era) -> TableSpec:
    types = WIDE if era.is_wide else NARROW
    return TableSpec((("k", pa.string()),), aggregation(era.aggregates, types))


def opened(runs: Runs, schema: TableSchema) -> Runs:
    """The files of the runs, opened with the columns of a schema."""

    files = tuple(decode_run(run.source, schema, run.batch_id) for run in runs.runs)
    return replace(runs, schema=schema, runs=files)


def redefine(reference: Reference, era: Era) -> None:
    """The reference's open lives under another definition."""
    reference.specs = era.aggregates
    for life in reference.lives.values():
        before = life.aggregates
        life.aggregates = {
            name: before.get(era.renamed.get(name, name)) or accumulator(text)
            for name, text in era.aggregates.items()
        }


def steps_of(spec: TableSpec, records: list[Record]) -> Steps:
    def column(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([record.values[name] for record in records], kind)

    inputs: Mapping[str, pa.DataType] = spec.kind.inputs
    return Steps.from_records(
        spec,
        [pa.array([record.key[0] for record in records], pa.string())],
        np.array([record.t_ms for record in records], dtype=np.int64),
        {name: column(name, kind) for name, kind in inputs.items()},
        reads=np.array([record.read for record in records], dtype=bool),
    )


@law(14, eras())
def test_changed_definitions_go_on_as_the_reference(history: list[Era]) -> None:
    reference = Reference(RULE, history[0].aggregates)
    kept: Definition | None = None
    table, t_ms, batch_id = ShardTable.empty(spec_of(history[0])), 0, 0
    for era in history:
        asked = Definition.of(spec_of(era), TimeDomain.EVENT, era.renamed)
        if kept is None:
            kept = asked.kept
        else:
            found = compare_definitions(kept, asked)
            assert found.refusals == []
            kept = found.definition
        redefine(reference, era)
        # What is kept is written down, and read by whoever goes on.
        spec = Definition.from_json(kept.to_json()).spec()
        table = replace(table, spec=spec, current=opened(table.current, spec.schema))
        for batch in era.batches:
            records = []
            for key, step_ms, x, y, f, is_read in batch:
                t_ms += step_ms
                values: dict[str, Any] = {"x": x, "y": y, "f": f}
                records.append(Record((key,), t_ms, values, read=is_read))
            before = len(reference.expired)
            reference.batch_id = batch_id
            for record in records:
                reference.take(record)
            reference.sweep(t_ms)
            merge = MergePolicy(dense=0.0) if era.merges else MergePolicy(dense=9.0)
            outcome = table.apply(steps_of(spec, records), POLICY, t_ms, batch_id, merge)
            table = outcome.table
            rows = [row for row in plain_rows(spec, outcome.changes) if row["change"] == "expire"]
            assert_rows(reference.expired[before:], rows, era.aggregates)
            assert_states(reference.states(), plain_rows(spec, table.lives(POLICY)), era.aggregates)
            batch_id += 1
