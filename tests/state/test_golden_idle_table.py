"""The table against recorded Flink functions, wherever the idle rule alone decides what goes.

`tests/retention/test_golden_idle_cleanup.py` replays every trace with its timers. Here the
elements of a trace are simply written to a table, one by one and all in one batch: lives, expire
rows, cleanup times and counts have to come out as recorded.
"""

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy
from tests.backends.law_runner import plain_rows
from tests.golden_files import read_traces

pytestmark = pytest.mark.golden

# Foreign and event timers clean nothing in these, and nothing drops a timer.
RULE_ALONE = {"is_processing_time_timer && need_to_cleanup_state", None}


def elements_of(trace):
    return [step for step in trace["ops"] if step["op"] == "element"]


def cleaned_in(trace):
    """(timestamp, key) of every cleaning that was recorded."""
    fired = [timer for step in trace["ops"] for timer in step["fired_before"]]
    cleans = {"cleaned", "FIRE_AND_PURGE"}
    return sorted(
        (timer["ts"], timer["key"])
        for timer in fired
        if timer.get("cleaned") or timer.get("result") in cleans
    )


def write(table, steps, policy, batch_id, sweep):
    keys, times = [step["key"] for step in steps], [step["t"] for step in steps]
    records = Steps.from_records(table.spec, [pa.array(keys)], np.array(times), {})
    outcome = table.apply(records, policy, sweep, batch_id, MergePolicy(ratio=1))
    return outcome.table, plain_rows(table.spec, outcome.changes)


@pytest.mark.parametrize(
    ("name", "batches"),
    [
        ("idle_cleanup", "one by one"),
        ("idle_cleanup", "in one batch"),
        ("idle_cleanup_legacy", "in one batch"),
        pytest.param("idle_cleanup_legacy", "one by one", marks=pytest.mark.long),
    ],
)
def test_golden_elements_through_the_table(name, batches, record_property):
    traces = [trace for trace in read_traces(name) if trace.get("on_timer") in RULE_ALONE]
    spec = TableSpec(keys=(("key", pa.string()),), kind=aggregation({"n": "count"}, {}))
    compared = 0
    for trace in traces:
        policy = Policy(idle_min_ms=trace["min_ms"], idle_max_ms=trace["max_ms"], min_gap_ms=0)
        elements, end = elements_of(trace), trace["ops"][-1]["t"]
        table, expired = ShardTable.empty(spec), []
        cuts = [[step] for step in elements] if batches == "one by one" else [elements]
        for at, cut in enumerate(cuts):
            table, rows = write(table, cut, policy, at, end if at == len(cuts) - 1 else None)
            expired += [
                (row["expired_at"], *row["key"]) for row in rows if row["change"] == "expire"
            ]
            if len(cut) == 1:
                (newest,) = [row for row in rows if row["change"] == "update"] or rows[-1:]
                assert cut[0].get("count", newest["n"]) == newest["n"], (trace["trace"], cut)
        assert sorted(expired) == cleaned_in(trace), trace["trace"]
        for life in plain_rows(spec, table.lives(policy)):
            newest = next(step for step in elements[::-1] if (step["key"],) == life["key"])
            assert life["cleanup_at"] == newest["cleanup_time"], (trace["trace"], life)
        compared += len(elements)
    assert compared > 0 or not traces
    record_property("elements", compared)
