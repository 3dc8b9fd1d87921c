"""The law of batches: the table equals the reference, however a sequence is cut into batches.

`IDLESTATE_LAW=quick` tries fewer cases and shrinks none: for the mutants, which only ask whether
anything fails.
"""

import os
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from idlestate.backends.aggregates import bind
from idlestate.backends.steps import Steps, TableSpec
from idlestate.backends.sums import SumOverflowError
from idlestate.backends.table import Table
from idlestate.retention.policy import FOREVER_MS, Policy
from tests.backends.law_cases import KEYS, Case, cases
from tests.backends.law_runner import assert_equal_runs, plain_rows, restored, run_reference

QUICK = os.environ.get("IDLESTATE_LAW") == "quick"
CASES = 300 if QUICK else 2000
PHASES = (Phase.generate,) if QUICK else tuple(set(Phase) - {Phase.explain})
MUST_SEE = ("closed_in_its_batch", "comebacks", "rearms", "skipped_rearms", "at_deadline")
SHARE = 0.2


@pytest.mark.parametrize("is_sorted", [True, False], ids=["as_a_pipeline_sorts", "as_given"])
def test_table_equals_reference(is_sorted, record_property):
    seen: Counter[str] = Counter()

    @settings(max_examples=CASES, phases=PHASES, suppress_health_check=list(HealthCheck))
    @given(cases(is_sorted=is_sorted))
    def law(case: Case) -> None:
        reference = run_reference(case)
        seen["cases"] += 1
        seen.update(name for name, count in reference.counts.items() if count)
        assert_equal_runs(case, reference)

    law()
    record_property("seen", dict(seen))
    for name in MUST_SEE:
        share = seen[name] / seen["cases"]
        assert share >= SHARE, f"only {share:.0%} of {seen['cases']} cases contain {name}"


# ---------------------------------------------------------------- equal hashes


@pytest.mark.parametrize("modulus", [1, 4])
@pytest.mark.parametrize("kind", KEYS)
def test_equal_hashes_never_merge_keys(kind, modulus):
    """Every key counted apart, over batches, sweeps and restarts, though hashes say nothing."""
    types, keys = KEYS[kind]
    spec = TableSpec(
        keys=tuple((f"k{at}", each) for at, each in enumerate(types)),
        aggregates=bind({"n": "count", "total": "sum(x)"}, {"x": pa.int64()}),
    )
    policy = Policy(idle_min_ms=10, idle_max_ms=10)
    table = Table.empty(spec)
    for batch_id in range(4):
        # Key i comes i + 1 times, in turns; in the last batch only every second key.
        rows = [i for turn in range(len(keys)) for i in range(turn, len(keys))]
        rows = rows if batch_id < 3 else [i for i in rows if i % 2 == 0]
        steps = Steps.from_records(
            spec,
            [pa.array([keys[i][at] for i in rows], each) for at, each in enumerate(types)],
            np.full(len(rows), batch_id),
            {"x": pa.array([10**i for i in rows])},
            hashes=np.array(rows, dtype=np.int64) % modulus,
        )
        table = restored(table.apply(steps, policy, None, batch_id).table)
    found = {row["key"]: (row["n"], row["total"]) for row in plain_rows(spec, table.lives(policy))}
    times = {i: (i + 1) * (4 if i % 2 == 0 else 3) for i in range(len(keys))}
    assert found == {keys[i]: (n, n * 10**i) for i, n in times.items()}

    idle = Steps.from_records(
        spec,
        [pa.array([keys[0][at]], each) for at, each in enumerate(types)],
        np.array([12]),
        {"x": pa.array([0])},
        hashes=np.array([0]),
    )
    swept = table.apply(idle, policy, 12, 4)
    expired = [row["key"] for row in plain_rows(spec, swept.changes) if row["change"] == "expire"]
    assert sorted(expired, key=repr) == sorted((keys[i] for i in times if i % 2), key=repr)


# ---------------------------------------------------------------- sums that leave their type

ONE_KEY = (("k", pa.string()),)


def sum_of(batches, kind, text="sum(x)"):
    spec = TableSpec(keys=ONE_KEY, aggregates=bind({"total": text}, {"x": kind}))
    table, policy = Table.empty(spec), Policy(ttl_ms=FOREVER_MS)
    for batch_id, batch in enumerate(batches):
        steps = Steps.from_records(
            spec,
            [pa.array(["a"] * len(batch))],
            np.arange(len(batch)),
            {"x": pa.array(batch, kind)},
        )
        table = table.apply(steps, policy, None, batch_id).table
    (row,) = plain_rows(spec, table.lives(policy))
    return row["total"]


MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("batches", "total"),
    [
        ([[MOST]], MOST),
        ([[LEAST]], LEAST),
        ([[MOST, MOST, LEAST, LEAST]], -2),
        ([[MOST], [LEAST], [MOST]], MOST - 1),
        ([[2**62, 2**62, -1]], MOST),
        ([[-(2**62)] * 2], LEAST),
        ([[MOST] * 9 + [LEAST] * 9 + [5]], -4),
    ],
)
def test_sums_at_the_edge_of_their_type_are_exact(batches, total):
    assert sum_of(batches, pa.int64()) == total


@pytest.mark.parametrize("batches", [[[MOST, 1]], [[MOST], [1]], [[LEAST, -1]], [[LEAST], [-1]]])
def test_a_sum_that_does_not_fit_is_an_error(batches):
    with pytest.raises(SumOverflowError):
        sum_of(batches, pa.int64())


def test_an_average_of_large_integers_is_right():
    assert sum_of([[MOST] * 3], pa.int64(), "avg(x)") == pytest.approx(2.0**63, rel=1e-15)
    assert sum_of([[LEAST] * 5, [LEAST]], pa.int64(), "avg(x)") == -(2.0**63)
