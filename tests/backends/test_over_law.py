"""The law of `over`: each record comes once, with the aggregates of its life up to its time."""

from dataclasses import replace
from itertools import chain, groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.bounded_over import over_kind
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy, TimeDomain
from tests.backends.law_cases import COLUMNS, ORDERS, Case
from tests.backends.law_runner import assert_equal_ends, run_table, spec_of
from tests.backends.test_deduplication_law import with_writes_and_order
from tests.backends.test_in_order_law import disordered
from tests.compare import assert_aggregates
from tests.lengths import by_cases
from tests.reference import Reference
from tests.reference_pipeline import make_sequence
from tests.reference_values import rank

TYPES = {name: kind for name, (kind, _) in (COLUMNS | ORDERS).items()}
OWN = ["i32", "text"]


def moment(record):
    return repr(record.key), record.t_ms, [rank(value) for value in record.order]


@by_cases("examples", 22)
def test_records_and_states_equal_those_of_the_reference(examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(disordered())
    def law(drawn: Case) -> None:
        case = with_writes_and_order(drawn)
        kind = over_kind(case.aggregates, OWN, TYPES, case.order)
        spec = replace(spec_of(case), kind=kind, in_order=True)
        reference = Reference(case.rule, case.aggregates)
        expected = []
        records = make_sequence(chain.from_iterable(case.batches))
        for _, peers in groupby(sorted(records, key=moment), key=moment):
            every = list(peers)
            for record in every:
                reference.take(record)
            results = reference.lives[every[0].key].results()
            for record in every:
                own = {name: record.values[name] for name in OWN}
                expected.append(({"key": record.key} | own, results))
        assert case.sweeps[-1] is not None
        reference.sweep(case.sweeps[-1])
        tables, rows, tally = run_table(case, spec, in_form=False)
        found = [({name: row[name] for name in ("key", *OWN)}, row) for row in rows]
        assert len(found) == len(expected)
        for (own, results), (other, row) in zip(
            sorted(expected, key=in_turn), sorted(found, key=in_turn), strict=True
        ):
            assert own == other
            assert_aggregates(results, row, case.aggregates, own)
        assert_equal_ends(case, reference, tables, tally)

    law()


def in_turn(row):
    """Rows of one key, value and count differ in nothing else."""
    return repr(sorted(row[0].items())), row[1]["n"]


# ---------------------------------------------------------------- by name

KIND = over_kind({"n": "count", "s": "sum(v)"}, ["v"], {"v": pa.int64()})
SPEC = TableSpec((("k", pa.string()),), KIND, in_order=True)


def sums(batches, policy):
    """Of batches of (time, value) the running sums, by time."""
    table, found = ShardTable.empty(SPEC), []
    for batch_id, (records, upto_ms) in enumerate(batches):
        times_ms, values = zip(*records, strict=True) if records else ((), ())
        steps = Steps.from_records(
            SPEC, [pa.array(["a"] * len(records), pa.string())],
            np.array(times_ms, dtype=np.int64), {"v": pa.array(values, pa.int64())},
        )  # fmt: skip
        outcome = table.apply(steps, policy, upto_ms, batch_id, MergePolicy())
        table = outcome.table
        found += [(row["v"], row["n"], row["s"]) for row in outcome.changes.to_pylist()]
    return found


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        pytest.param(
            [([(100, 1), (120, 2)], 0), ([(110, 4)], 100), ([], 120)],
            [(1, 1, 1), (4, 2, 5), (2, 3, 7)],
            id="by event time, not by arrival",
        ),
        pytest.param(
            [([(100, 1), (100, 2), (101, 3)], 0), ([], 101)],
            [(1, 2, 3), (2, 2, 3), (3, 3, 6)],
            id="records of one time count together",
        ),
        pytest.param(
            [([(100, 1)], 0), ([(149, 2), (199, 3)], 100), ([], 200)],
            [(1, 1, 1), (2, 2, 3), (3, 1, 3)],
            id="the end of a life empties the frame",
        ),
    ],
)
def test_a_record_comes_with(batches, expected):
    assert sums(batches, Policy(ttl_ms=50)) == expected


def test_a_definition_says_again_what_is_emitted():
    definition = Definition.of(SPEC, TimeDomain.EVENT)
    assert Definition.from_json(definition.to_json()).spec() == SPEC
