"""The law of batches for `deduplicate`: whatever the cuts, the rows are those of the reference."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlestate.backends.shards.deduplication import Keep, deduplication
from idlestate.backends.shards.table_spec import TableSpec
from tests.backends.law_aggregates import COLUMNS
from tests.backends.law_cases import ORDERS, Case, cases
from tests.backends.law_runner import assert_equal_ends, run_table, spec_of
from tests.compare import assert_rows
from tests.frequent import assert_frequent
from tests.lengths import by_cases
from tests.reference_deduplication import DeduplicationReference, by_value

SEEN = {
    Keep.FIRST: ("closed_in_its_batch", "at_deadline", "rearms", "skipped_rearms", "duplicates"),
    Keep.LAST: ("closed_in_its_batch", "at_deadline", "rearms", "skipped_rearms"),
}
SHARE = 0.05
VALUES = st.lists(st.sampled_from(list(COLUMNS)), unique=True, max_size=3)


def deduplication_of(case: Case, keep: Keep, names: list[str]) -> TableSpec:
    types = {name: kind for name, (kind, _) in (COLUMNS | ORDERS).items()}
    names = [*names, *case.order]
    return replace(spec_of(case), kind=deduplication(keep, names, types, case.order))


def with_writes_and_order(case: Case) -> Case:
    """The case with every record a write whose order columns are among its values."""
    batches = [
        [
            replace(
                record,
                read=False,
                values=dict(record.values) | dict(zip(case.order, record.order, strict=True)),
            )
            for record in batch
        ]
        for batch in case.batches
    ]
    return replace(case, batches=batches)


def run_reference(case: Case, keep: Keep, names: list[str]) -> DeduplicationReference:
    reference = DeduplicationReference(case.rule, names, keep)
    for batch_id, (batch, sweep) in enumerate(zip(case.batches, case.sweeps, strict=True)):
        if batch_id in dict(case.changes):
            reference.change_rule(case.rule_of(batch_id))
        reference.batch_id = batch_id
        for record in by_value(batch, names):
            reference.take(record)
        is_last = batch_id == len(case.batches) - 1
        if sweep is not None and (case.reference_sweeps or is_last):
            reference.sweep(sweep)
    return reference


@by_cases("examples", 14)
@pytest.mark.parametrize("keep", Keep)
def test_rows_and_states_equal_those_of_the_reference(keep, examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(cases(is_sorted=True), VALUES)
    def law(drawn: Case, values: list[str]) -> None:
        case = with_writes_and_order(drawn)
        spec = deduplication_of(case, keep, values)
        names = [name for name, _ in spec.kind.results]
        reference = run_reference(case, keep, names)
        texts = dict.fromkeys(names, keep.value)
        tables, rows, tally = run_table(case, spec, in_form=False)
        assert_rows(reference.rows(), rows, texts)
        assert_equal_ends(replace(case, aggregates=texts), reference, tables, tally)

    law()


@pytest.mark.parametrize("keep", Keep)
def test_cases_turn_at_every_corner(keep):
    def corners(drawn: Case, values: list[str]) -> set[str]:
        case = with_writes_and_order(drawn)
        names = [name for name, _ in deduplication_of(case, keep, values).kind.results]
        counts = run_reference(case, keep, names).counts
        return {name for name, count in counts.items() if count}

    assert_frequent(corners, dict.fromkeys(SEEN[keep], SHARE), cases(is_sorted=True), VALUES)
