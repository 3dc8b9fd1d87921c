"""The law of `join_asof`: each probe comes once, with the version of its time, for all cuts."""

from collections import Counter
from dataclasses import replace
from datetime import datetime
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.as_of import as_of
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy, UpdateType
from tests.backends.law_cases import COLUMNS, Case
from tests.backends.law_runner import assert_equal_ends, run_table, spec_of
from tests.backends.test_in_order_law import disordered
from tests.frequent import assert_frequent
from tests.lengths import by_cases
from tests.reference_joins import AsOfReference, in_turn

PROBES, VERSIONS, ORDER = ["i8", "text"], ["i32", "day"], "i32"
TYPES = {name: kind for name, (kind, _) in COLUMNS.items()}


def without_order(case: Case) -> Case:
    batches = [[replace(record, order=()) for record in batch] for batch in case.batches]
    return replace(case, order=(), batches=batches)


def run_reference(case: Case, how: str) -> AsOfReference:
    reference = AsOfReference(case.rule, PROBES, VERSIONS, how)
    for record in in_turn(chain.from_iterable(case.batches), VERSIONS, ORDER):
        reference.take(record)
    assert case.sweeps[-1] is not None
    reference.sweep(case.sweeps[-1])
    return reference


@by_cases("examples", 14)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_probes_and_states_equal_those_of_the_reference(how, examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(disordered())
    def law(drawn: Case) -> None:
        case = without_order(drawn)
        kind = as_of(how, PROBES, VERSIONS, TYPES, (ORDER,))
        spec = replace(spec_of(case), kind=kind, in_order=True)
        reference = run_reference(case, how)
        tables, rows, tally = run_table(case, spec, in_form=False)
        assert counted(reference.found) == counted(rows)
        names = [*VERSIONS]
        states = replace(case, aggregates=dict.fromkeys(names, "last"))
        for key, life in reference.lives.items():
            life.aggregates = {name: _Kept(reference.newest[key][name]) for name in names}
        assert_equal_ends(states, reference, tables, tally)

    law()


@pytest.mark.long
def test_cases_have_probes_with_and_without_a_match():
    def contents(drawn: Case) -> set[str]:
        found = run_reference(without_order(drawn), "left").found
        return {"no match" if row["day"] is None else "match" for row in found}

    assert_frequent(contents, {"match": 0.05, "no match": 0.05}, disordered())


class _Kept:
    def __init__(self, value: object) -> None:
        self.value = value

    def result(self) -> object:
        return self.value


def counted(rows):
    return Counter(
        repr(sorted((name, plain(value)) for name, value in row.items() if name != "batch_id"))
        for row in rows
    )


def plain(value):
    """A value as text that does not say which class its time zone is of."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.isoformat() if isinstance(value, datetime) else value


# ---------------------------------------------------------------- by name

SPEC = TableSpec(
    (("k", pa.string()),),
    as_of("left", ["p"], ["v"], {"p": pa.string(), "v": pa.string()}),
    in_order=True,
)
TTL = Policy(ttl_ms=50)


def steps(text):
    """`v100 p130` is a version at 100 and a probe at 130."""
    words = [(word[0] == "p", int(word[1:])) for word in text.split()]
    reads, times_ms = zip(*words, strict=True)
    return Steps.from_records(
        SPEC,
        [pa.array(["a"] * len(words))],
        np.array(times_ms),
        {
            "p": pa.array([f"p{t}" if read else None for read, t in words], pa.string()),
            "v": pa.array([None if read else f"v{t}" for read, t in words], pa.string()),
        },
        reads=np.array(reads),
    ).collapsed(SPEC.kind)


def joined(batches, policy=TTL, spec=SPEC):
    table, found = ShardTable.empty(spec), []
    for batch_id, (text, upto_ms) in enumerate(batches):
        taken = steps(text) if text else Steps.empty(spec)
        outcome = table.apply(taken, policy, upto_ms, batch_id, MergePolicy())
        table = outcome.table
        found += [(row["p"], row["v"]) for row in outcome.changes.to_pylist()]
    return found


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        pytest.param(
            [("v100 p100", 0), ("", 100)], [("p100", "v100")], id="a version of the probe's time"
        ),
        pytest.param(
            [("v100 p149", 0), ("", 149)], [("p149", "v100")], id="the last moment of a life"
        ),
        pytest.param([("v100 p150", 0), ("", 150)], [("p150", None)], id="at the deadline"),
        pytest.param(
            [("v100 p130", 0), ("v120", 110), ("", 130)],
            [("p130", "v120")],
            id="a version that comes after the probe and before its turn",
        ),
        pytest.param([("p130", 0), ("v140", 129), ("", 140)], [("p130", None)], id="too new"),
        pytest.param(
            [("v100", 0), ("", 149), ("p150 p151 v151", 149), ("", 200)],
            [("p150", None), ("p151", "v151")],
            id="another life",
        ),
        pytest.param(
            [("v100 p120 p120", 0), ("", 200)],
            [("p120", "v100"), ("p120", "v100")],
            id="equal probes",
        ),
    ],
)
def test_a_probe_finds(batches, expected):
    assert joined(batches) == expected


def test_a_version_written_at_50_with_ttl_100ms_is_visible_at_149_and_gone_at_150():
    expected = [("p149", "v50"), ("p150", None)]
    for batches in (
        [("v50 p149 p150", 0), ("", 150)],
        [("v50", 0), ("p149", 49), ("p150", 148), ("", 150)],
    ):
        assert joined(batches, Policy(ttl_ms=100)) == expected


def test_an_inner_join_drops_probes_without_a_version():
    kind = as_of("inner", ["p"], ["v"], {"p": pa.string(), "v": pa.string()})
    spec = replace(SPEC, kind=kind)
    assert joined([("p90 v100 p130 p150", 0), ("", 200)], spec=spec) == [("p130", "v100")]


def test_a_probe_is_an_access_if_reads_count():
    policy = Policy(ttl_ms=50, ttl_update=UpdateType.ON_READ_AND_WRITE)
    batches = [("v100 p149", 0), ("p198", 149), ("", 200)]
    assert joined(batches, policy) == [("p149", "v100"), ("p198", "v100")]
    assert joined(batches) == [("p149", "v100"), ("p198", None)]


def test_a_definition_says_again_what_is_joined():
    from idlestate.backends.shards.definition import Definition
    from idlestate.retention.policy import TimeDomain

    spec = replace(SPEC, order=(("v", pa.string()),), kind=as_of(
        "left", ["p"], ["v"], {"p": pa.string(), "v": pa.string()}, ("v",)))  # fmt: skip
    definition = Definition.of(spec, TimeDomain.EVENT)
    again = Definition.from_json(definition.to_json()).spec()
    assert again == spec
