"""Runs one case of the law through the table and through the reference, and compares them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.run import Run
from idlestate.backends.runs.run_codec import decode_run
from idlestate.backends.runs.table_runs import LOWEST_HASH, Runs
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.key_ages import KeyAges, OpenLives
from idlestate.backends.shards.key_counts import KeyCounts
from idlestate.backends.shards.packet_codec import decode_packet, encode_packet
from idlestate.backends.shards.shard_record import HELD
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.age_buckets import AGE_BUCKETS_MS
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain, UpdateType
from idlestate.retention.time_bins import BINS, KeyTimes, TimeBins
from tests.backends.law_aggregates import COLUMNS
from tests.backends.law_cases import KEYS, ORDERS, Case
from tests.backends.veiled import Veiled
from tests.compare import assert_rows, assert_states
from tests.reference import Record, Reference, Rule
from tests.reference_pipeline import make_sequence

TIMESTAMP = pa.timestamp("us", "UTC")
Found = dict[str, Any]


def policy_of(rule: Rule, time: TimeDomain = TimeDomain.EVENT) -> Policy:
    return Policy(
        time=time,
        max_shrink=1,
        idle_min_ms=rule.idle_min_ms,
        idle_max_ms=rule.idle_max_ms,
        update=UpdateType(rule.update),
        ttl_ms=rule.ttl_ms,
        ttl_update=UpdateType(rule.ttl_update),
        max_lifetime_ms=rule.max_lifetime_ms,
        remember_ms=rule.remember_ms,
        min_gap_ms=0,
    )


def spec_of(case: Case) -> TableSpec:
    kinds = KEYS[case.key_kind][0]
    order = tuple((name, ORDERS[name][0]) for name in case.order)
    types = {name: kind for name, (kind, _) in COLUMNS.items()} | dict(order)
    return TableSpec(
        keys=tuple((f"k{at}", kind) for at, kind in enumerate(kinds)),
        kind=aggregation(case.aggregates, types, case.order),
        order=order,
    )


def needed_columns(spec: TableSpec) -> dict[str, pa.DataType]:
    order = dict(spec.order)
    found = spec.kind.inputs
    return {name: kind for name, kind in found.items() if name not in order}


def make_steps(spec: TableSpec, case: Case, records: Sequence[Record]) -> Steps:
    keys = [
        pa.array([record.key[at] for record in records], kind)
        for at, (_, kind) in enumerate(spec.keys)
    ]
    # In processing time a batch's time is not known where rows are packed.
    times_ms = [0 if case.at_batch_time else record.t_ms for record in records]
    return Steps.from_records(
        spec,
        keys,
        np.array(times_ms, dtype=np.int64),
        {
            name: pa.array([record.values[name] for record in records], kind)
            for name, kind in needed_columns(spec).items()
        },
        reads=np.array([record.read for record in records], dtype=bool),
        order=[
            pa.array([record.order[at] for record in records], kind)
            for at, (_, kind) in enumerate(spec.order)
        ],
        hashes=hash_keys(keys) % 4 if case.weak_hash else None,
        sort=case.is_sorted,
    )


def steps_of(spec: TableSpec, case: Case, batch: Sequence[Record]) -> Steps:
    """One batch's steps; from several tasks as a pipeline hands them over, when it does."""
    if not batch:
        return Steps.empty(spec)
    if case.is_sorted:
        batch = [*batch[1::2], *batch[::2]][::-1]  # out of order, as files come
    if case.parts == 1:
        steps = make_steps(spec, case, batch)
    else:
        parts = []
        for at in range(case.parts):
            steps = make_steps(spec, case, batch[at :: case.parts])
            packet = encode_packet(steps.collapsed(spec.kind))
            parts.append(decode_packet(packet, spec))
        is_joined = HELD in spec.tables and case.shards == 1
        steps = Steps.joined(parts) if is_joined else Steps.merged(parts)
    t_ms = batch[0].t_ms
    assert t_ms is not None
    return steps.at(t_ms, spec.kind) if case.at_batch_time else steps


def by_shard(steps: Steps, shards: int) -> list[Steps]:
    """The steps by ranges of hashes: all, or those below zero and the others."""
    bounds = [0, *np.searchsorted(steps.hashes, [0] * (shards - 1)).tolist(), len(steps)]
    return [steps.slice(first, stop) for first, stop in pairwise(bounds)]


def restored(table: ShardTable) -> ShardTable:
    """The table written to bytes and read back; of them it sees what it asks for."""
    others = {name: reread(runs) for name, runs in table.others.items()}
    return replace(
        table, current=reread(table.current), remembered=reread(table.remembered), others=others
    )


def reread(runs: Runs) -> Runs:
    return replace(runs, runs=tuple(decoded(run, runs.schema) for run in runs.runs))


def decoded(run: Run, schema: TableSchema) -> Run:
    run.need_all()
    again = decode_run(Veiled(run.source.data), schema, run.batch_id)
    assert len(again) == len(run)
    return again


def run_table(
    case: Case, spec: TableSpec, *, in_form: bool = True
) -> tuple[list[ShardTable], list[Found], KeyCounts]:
    """Every batch through the table: the shards' last tables, all change rows, the counts."""
    tables, tally = [ShardTable.empty(spec)] * case.shards, KeyCounts()
    ages = [KeyAges()] * case.shards
    rows: list[Found] = []
    for batch_id, (batch, sweep) in enumerate(zip(case.batches, case.sweeps, strict=True)):
        policy = policy_of(case.rule_of(batch_id))
        found: list[Found] = []
        for at, steps in enumerate(by_shard(steps_of(spec, case, batch), case.shards)):
            merge = case.merges[batch_id % len(case.merges)]
            outcome = tables[at].apply(steps, policy, sweep, batch_id, merge)
            is_reread = case.restores[batch_id % len(case.restores)]
            tables[at] = restored(outcome.table) if is_reread else outcome.table
            assert_table_is_whole(tables[at], max(each.most_runs for each in case.merges))
            ages[at] = ages[at].after(
                [(tables[at].current, policy)],
                1000 * batch_id,
                changed=outcome.keys_changed,
                first_end_ms=outcome.first_end_ms,
            )
            if is_reread:
                assert_ages_hold(ages[at], [(tables[at].current, policy)])
            tally = tally.plus(outcome.tally)
            found += plain_rows(spec, outcome.changes)
        if in_form:
            assert_batch_is_in_form(found, batch, batch_id)
        rows += found
    return tables, rows, tally


def assert_ages_hold(ages: KeyAges, tables: OpenLives) -> None:
    """Nothing ends before they say, however long ago the look was; and after one they are exact."""
    due_ms, accesses_ms = [], []
    for runs, policy in tables:
        for rows in open_rows(runs, 1000):
            due_ms += rows.lives.due_ms(policy).tolist()
            accesses_ms += rows.lives.last_access_ms(policy).tolist()
    first_ms = min(due_ms, default=FOREVER_MS)
    assert ages.first_end_ms <= first_ms
    fresh = KeyAges().after(tables, 0, changed=0, first_end_ms=FOREVER_MS)
    assert fresh.first_end_ms == first_ms
    assert_bins_count(fresh.ends, due_ms)
    assert_bins_count(fresh.accesses, accesses_ms)


def assert_bins_count(bins: TimeBins, times_ms: list[int]) -> None:
    """A few keys are counted exactly, many to one bin."""
    moments = sorted({ms + by for ms in times_ms for by in (-1, 0, 1) if abs(ms) < 2**52})
    counts = KeyTimes([bins]).count(moments).tolist()
    most_off = max(bins.keys) if len(times_ms) > BINS else 0
    for moment, count in zip(moments, counts, strict=True):
        assert abs(count - sum(ms <= moment for ms in times_ms)) <= most_off
    assert sum(bins.keys) == len(times_ms)


def open_rows(runs: Runs, most_rows: int) -> Iterator[Rows]:
    since: int | None = LOWEST_HASH
    while since is not None:
        part, since = runs.open_rows(since, most_rows)
        yield part


def run_reference(case: Case) -> Reference:
    reference = Reference(case.rule, case.aggregates)
    for batch_id, (batch, sweep) in enumerate(zip(case.batches, case.sweeps, strict=True)):
        if batch_id in dict(case.changes):
            reference.change_rule(case.rule_of(batch_id))
        reference.batch_id = batch_id
        for record in make_sequence(batch) if case.is_sorted else batch:
            reference.take(record)
        is_last = batch_id == len(case.batches) - 1
        if sweep is not None and (case.reference_sweeps or is_last):
            reference.sweep(sweep)
    return reference


def assert_equal_runs(case: Case, reference: Reference) -> None:
    """The law: last row of every life, the multiset of expire rows, final states, and counts."""
    tables, rows, tally = run_table(case, spec_of(case))
    assert_rows(reference.last_rows(), last_rows(rows), case.aggregates)
    assert_equal_ends(case, reference, tables, tally)


def assert_equal_ends(
    case: Case, reference: Reference, tables: Sequence[ShardTable], tally: KeyCounts
) -> None:
    """Final states and counts."""
    policy = policy_of(case.rule_of(len(case.batches)))
    states = [row for each in tables for row in plain_rows(each.spec, each.lives(policy))]
    assert_states(reference.states(), states, case.aggregates)
    counts = reference.counts
    assert tally.created == counts["created"]
    assert tally.expired == (counts["lifetime"], counts["ttl"], counts["idle"])
    if case.compares_returning_keys:
        assert_returning_keys(reference, tally)


def assert_returning_keys(reference: Reference, tally: KeyCounts) -> None:
    """How many there were, and how long they had been away."""
    assert tally.returning_keys == reference.counts["returning_keys"]
    assert tally.absent_ms == sum(reference.absences_ms)
    bounds = [*AGE_BUCKETS_MS, FOREVER_MS]
    upto = [sum(away <= bound for away in reference.absences_ms) for bound in bounds]
    assert list(accumulate(tally.absences)) == upto


def plain_rows(spec: TableSpec, table: pa.Table) -> list[Found]:
    """Rows as plain Python: `key` a tuple, times in ms, everything else under its name."""
    results = {name for name, _ in spec.kind.results}
    columns: dict[str, list[Any]] = {}
    for name in table.schema.names:
        column = table.column(name)
        if column.type == TIMESTAMP and name not in results and name not in spec.key_names:
            micros = column.cast(pa.int64()).to_pylist()
            assert all(us is None or us % 1000 == 0 for us in micros)
            columns[name] = [None if us is None else us // 1000 for us in micros]
        else:
            columns[name] = column.to_pylist()
    keys = list(zip(*(columns.pop(name) for name in spec.key_names), strict=True))
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [{"key": key, **row} for key, row in zip(keys, rows, strict=True)]


def last_rows(rows: Sequence[Found]) -> list[Found]:
    """All expire rows, and of each life without one the update of the highest batch."""
    expired: list[Found] = []
    updates: dict[tuple[Any, int], Found] = {}
    for row in rows:
        life = row["key"], row["created_at"]
        if row["change"] == "expire":
            expired.append(row)
            updates.pop(life, None)
        elif row["created_at"] is not None:
            updates[life] = row
    return [*expired, *updates.values()]


def assert_batch_is_in_form(rows: Sequence[Found], batch: Sequence[Record], batch_id: int) -> None:
    """Per key at most one update, after one expire per life closed, in order of lives."""
    of_key: dict[Any, list[Found]] = defaultdict(list)
    for row in rows:
        assert row["batch_id"] == batch_id
        assert (row["change"] == "expire") == (row["expired_at"] is not None)
        assert (row["change"] == "expire") == (row["reason"] is not None)
        of_key[row["key"]].append(row)
    written = {record.key for record in batch if not record.read}
    looked_at = {record.key for record in batch}
    for key, found in of_key.items():
        silent = [row for row in found if row["created_at"] is None]
        lives = [row for row in found if row["created_at"] is not None]
        assert [row["change"] for row in lives[:-1]] == ["expire"] * (len(lives) - 1)
        born = [row["created_at"] for row in lives]
        assert born == sorted(born)
        if silent:
            assert len(silent) == 1
            assert key in looked_at - written
            assert not lives or lives[-1]["change"] == "expire"
            nulls = set(silent[0]) - {"key", "change", "batch_id"}
            assert all(silent[0][name] is None for name in nulls)
    assert looked_at <= set(of_key), "a key of the batch has no row"


def assert_table_is_whole(table: ShardTable, most_runs: int) -> None:
    """Counts are exact, no key is there twice, runs are in order and no more than allowed."""
    for runs in (table.current, table.remembered):
        rows = [key for part in open_rows(runs, 2) for key in keys_of(part)]
        assert len(rows) == len(set(rows)) == runs.live
        assert len(runs.runs) <= most_runs
        for run in runs.runs:
            run.need_all()
            every = run.slice(0, len(run))
            assert len(set(keys_of(every))) == len(run)
            assert (every.hashes[1:] >= every.hashes[:-1]).all()
            for start in run.stored.starts[1:-1].tolist():
                assert every.hashes[start - 1] < every.hashes[start]
        assert all(sweep.batch_id > runs.runs[0].batch_id for sweep in runs.sweeps)


def keys_of(rows: Rows) -> list[tuple[Any, ...]]:
    columns = [rows.hashes.tolist(), *(column.to_pylist() for column in rows.keys)]
    return list(zip(*columns, strict=True))
