"""Which executor held how much state at the end of a run on a cluster, from Spark's event log."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from idlestate.backends.checkpoint.shard_partitions import spark_partition


def held_by_executor(logs: Path, shards: list[dict[str, Any]]) -> list[dict[str, int]]:
    """Lives and bytes of state per executor that had some.

    Args:
        logs: the folder of the one log.
        shards: the newest report of each shard.
    """
    executor_of = _executors_of_state(logs)
    held: dict[str, Counter[str]] = defaultdict(Counter)
    for shard in shards:
        executor = executor_of[spark_partition(shard["shard"], len(executor_of))]
        held[executor].update(rows=shard["live_keys"], bytes=shard["state_bytes"])
    return [dict(each) for each in held.values()]


def _executors_of_state(logs: Path) -> list[str]:
    """The executor of each state partition, in the newest stage that wrote state."""
    stateful: set[int] = set()
    at: dict[int, dict[int, str]] = defaultdict(dict)
    (log,) = logs.iterdir()
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerStageSubmitted":
            stage = event["Stage Info"]
            if any(rdd["Name"] == "StateStoreRDD" for rdd in stage["RDD Info"]):
                stateful.add(stage["Stage ID"])
        elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stateful:
            task = event["Task Info"]
            at[event["Stage ID"]][task["Index"]] = task["Executor ID"]
    newest = at[max(at)]
    return [newest[partition] for partition in sorted(newest)]
