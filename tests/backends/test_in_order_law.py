"""The law with `in_order`: no cut and no disorder within the delay changes any result."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards import held_rows
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.deduplication import Keep
from idlestate.backends.shards.held_rows import waiting
from idlestate.backends.shards.key_counts import KeyCounts
from idlestate.backends.shards.key_details import KeyState, details_of
from idlestate.backends.shards.shard_record import HELD, ShardRecord
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy
from tests.backends.law_cases import Case, cases, cuts
from tests.backends.law_runner import (
    Found,
    assert_equal_ends,
    last_rows,
    plain_rows,
    run_table,
    spec_of,
)
from tests.backends.test_deduplication_law import deduplication_of, with_writes_and_order
from tests.compare import assert_rows, is_same
from tests.lengths import by_cases
from tests.reference import Record, Reference
from tests.reference_deduplication import DeduplicationReference, by_value
from tests.reference_pipeline import make_sequence

DELAYS = st.sampled_from([0, 1, 3, 10, 60])


@st.composite
def disordered(draw: st.DrawFn) -> Case:
    """Records up to `delay` out of order in any batches, swept as far as the watermark got, and
    at last up to the newest.
    """
    case = draw(cases(is_sorted=True).filter(lambda case: not case.changes))
    records = list(chain.from_iterable(case.batches))
    delay_ms = draw(DELAYS)
    later = draw(st.lists(st.integers(0, delay_ms), min_size=len(records), max_size=len(records)))
    arrives = np.argsort([time_of(record) + by for record, by in zip(records, later, strict=True)])
    batches = draw(cuts([records[at] for at in arrives]))
    highest, sweeps = None, []
    for batch in batches:
        sweeps.append(None if highest is None else highest - delay_ms - 1)
        assert highest is None or all(time_of(each) > highest - delay_ms - 1 for each in batch)
        times_ms = [time_of(each) for each in batch]
        highest = max(times_ms if highest is None else [highest, *times_ms])
    return replace(
        case,
        batches=[*batches, []],
        sweeps=[*sweeps, highest],
        reference_sweeps=False,
        at_batch_time=False,
    )


def time_of(record: Record) -> int:
    assert record.t_ms is not None
    return record.t_ms


def run_in_sequence(
    case: Case, reference: Reference, ordered: Callable[[list[Record]], list[Record]]
) -> None:
    for record in ordered(list(chain.from_iterable(case.batches))):
        reference.take(record)
    assert case.sweeps[-1] is not None
    reference.sweep(case.sweeps[-1])


@by_cases("examples", 14)
def test_aggregates_equal_those_of_the_records_in_order(examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(disordered())
    def law(case: Case) -> None:
        reference = Reference(case.rule, case.aggregates)
        run_in_sequence(case, reference, make_sequence)
        spec = replace(spec_of(case), in_order=True)
        tables, rows, tally = run_table(case, spec, in_form=False)
        assert_rows(reference.last_rows(), last_rows(rows), case.aggregates)
        assert_equal_ends(case, reference, tables, tally)
        assert all(not table.others[HELD].live for table in tables)

    law()


@by_cases("examples", 14)
@pytest.mark.parametrize("keep", Keep)
def test_deduplicated_records_equal_those_of_the_records_in_order(keep, examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(disordered())
    def law(drawn: Case) -> None:
        case = with_writes_and_order(drawn)
        spec = replace(deduplication_of(case, keep, ["i32", "text"]), in_order=True)
        names = [name for name, _ in spec.kind.results]
        reference = DeduplicationReference(case.rule, names, keep)
        run_in_sequence(case, reference, lambda records: by_value(records, names))
        texts = dict.fromkeys(names, keep.value)
        tables, rows, tally = run_table(case, spec, in_form=False)
        assert_rows(reference.rows(), rows, texts)
        assert_equal_ends(replace(case, aggregates=texts), reference, tables, tally)

    law()


@by_cases("examples", 15)
def test_no_row_of_a_batch_depends_on_how_rows_that_wait_are_divided(examples):
    """Packets by how long rows wait, as against one packet of all that wait after a batch."""

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(disordered())
    def law(case: Case) -> None:
        spec = replace(spec_of(case), in_order=True)

        def run(most_doublings: int) -> tuple[list[Found], KeyCounts]:
            with patch.object(held_rows, "_MOST_DOUBLINGS", most_doublings):
                _, rows, tally = run_table(case, spec, in_form=False)
            return sorted(rows, key=place_of), tally

        together, tally = run(0)
        for most_doublings in (1, 10):
            rows, counts = run(most_doublings)
            assert counts == tally
            assert [row.keys() for row in rows] == [row.keys() for row in together]
            for row, other in zip(rows, together, strict=True):
                for name, value in other.items():
                    assert is_same(value, row[name]), (name, other, row)

    law()


def place_of(row: Found) -> tuple[Any, ...]:
    times_ms = [-1 if row[name] is None else row[name] for name in ("created_at", "expired_at")]
    return row["batch_id"], repr(row["key"]), *times_ms


SPEC = TableSpec((("k", pa.string()),), aggregation({"n": "count"}, {}), in_order=True)
MERGE = MergePolicy()


def steps(*records):
    keys, times_ms = zip(*records, strict=True)
    return Steps.from_records(SPEC, [pa.array(keys)], np.array(times_ms), {})


def test_a_record_counts_once_the_watermark_has_reached_its_time():
    policy, table = Policy(ttl_ms=10), ShardTable.empty(SPEC)
    seen = []
    for batch_id, (records, upto_ms) in enumerate(
        [([("a", 100), ("b", 103)], 90), ([("a", 95)], 94), ([], 100), ([], 102), ([], 103)]
    ):
        taken = steps(*records) if records else Steps.empty(SPEC)
        outcome = table.apply(taken, policy, upto_ms, batch_id, MERGE)
        table = outcome.table
        seen.append([(r["key"][0], r["n"]) for r in plain_rows(SPEC, outcome.changes)])
    assert seen == [[], [], [("a", 2)], [], [("b", 1)]]


def test_a_life_does_not_end_before_its_waiting_records_are_judged():
    policy, table = Policy(ttl_ms=10), ShardTable.empty(SPEC)
    table = table.apply(steps(("a", 100)), policy, 99, 0, MERGE).table
    table = table.apply(steps(("a", 105), ("a", 120)), policy, 104, 1, MERGE).table
    outcome = table.apply(Steps.empty(SPEC), policy, 112, 2, MERGE)
    assert [(r["change"], r["n"]) for r in plain_rows(SPEC, outcome.changes)] == [("update", 2)]
    outcome = outcome.table.apply(Steps.empty(SPEC), policy, 120, 3, MERGE)
    found = [(r["change"], r["n"], r["expired_at"]) for r in plain_rows(SPEC, outcome.changes)]
    assert found == [("expire", 2, 115), ("update", 1, None)]


@pytest.mark.parametrize(("most_doublings", "packets"), [(0, 1), (1, 2), (10, 11)])
def test_rows_that_wait_are_divided_by_how_often_the_last_advance_doubles(most_doublings, packets):
    table = ShardTable.empty(SPEC).apply(steps(("a", 100)), Policy(), 99, 0, MERGE).table
    waits = steps(*(("a", 100 + (1 << doubling)) for doubling in range(1, 12)))
    with patch.object(held_rows, "_MOST_DOUBLINGS", most_doublings):
        table = table.apply(waits, Policy(), 100, 1, MERGE).table
    assert len(table.others[HELD].open_lives()) == packets


def test_the_records_of_a_key_that_wait_are_known():
    table = ShardTable.empty(SPEC).apply(
        steps(("a", 100), ("a", 95), ("b", 97)), Policy(), 90, 0, MERGE
    ).table  # fmt: skip
    key = [pa.array(["a"])]
    hashes = steps(("a", 0)).hashes
    assert waiting(table.others[HELD], SPEC, hashes, key).tolist() == [95, 100]
    facts = details_of(table, ShardRecord(), key, (Policy(), Policy()), 90)
    assert (facts.state, facts.held_rows, facts.held_from_ms) == (KeyState.NEVER_SEEN, 2, 95)
    table = table.apply(Steps.empty(SPEC), Policy(), 96, 1, MERGE).table
    assert waiting(table.others[HELD], SPEC, hashes, key).tolist() == [100]
    assert table.others[HELD].live == 2


def test_the_waiting_records_of_a_key_with_the_highest_hash_are_known():
    highest = np.full(1, (1 << 63) - 1)
    taken = replace(steps(("a", 100), ("a", 95)), hashes=highest)
    table = ShardTable.empty(SPEC).apply(taken, Policy(), 90, 0, MERGE).table
    assert waiting(table.others[HELD], SPEC, highest, [pa.array(["a"])]).tolist() == [95, 100]


def test_released_records_leave_the_state_within_some_batches():
    table, policy = ShardTable.empty(SPEC), Policy(ttl_ms=10)
    for batch_id in range(60):
        first_ms = 100 * batch_id
        records = [("a", first_ms + at) for at in range(100)]
        outcome = table.apply(steps(*records), policy, first_ms - 301, batch_id, MergePolicy())
        table = outcome.table
        held = table.others[HELD]
        assert held.live == 100 * min(batch_id + 1, 4)
        # Below `floor_rows` space is of no concern.
        assert sum(map(len, held.runs)) <= MergePolicy().floor_rows
        assert len(held.runs) <= MergePolicy().most_runs
