"""One run in a process of its own: `run_one.py JOB_FILE RESULT_FILE`.

Starts a session, runs one query over one input to its end, and writes what Spark's progress and
the checkpoint say of it as JSON. The caller measures this process's memory from outside.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from contestants import CONTESTANTS, UID
from executors import held_by_executor
from idlestate import read_state
from idlestate.metrics.newest_shard_reports import reports_in
from recipes import Windows
from session import LOCAL, read_events, start_session
from written import written_per_batch


def main(job_file: str, result_file: str) -> None:
    """Run the job and write its result."""
    started = time.perf_counter()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    job = json.loads(Path(job_file).read_text())
    contestant = CONTESTANTS[job["contestant"]]
    scratch = Path(job["scratch"])
    spark = start_session(scratch, job["master"])
    for name, value in contestant.settings:
        spark.conf.set(name, value)
    events = read_events(spark, Path(job["input"]), contestant.inputs)
    rows = contestant.build(*events, Windows(**job["windows"]))
    # Every row that reaches the sink is counted, so none can be left out unseen.
    counts = [F.count(F.lit(1)).alias("rows")]
    if job["counts_expired"] and "change" in rows.columns:
        counts.append(F.count_if(F.col("change") == "expire").alias("expired"))
    checkpoint = scratch / "checkpoint"
    query = (
        rows.observe("sink", *counts)
        .writeStream.format("noop")
        .outputMode(contestant.output_mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = [json.loads(each.json) for each in query.recentProgress]
    written = written_per_batch(checkpoint)
    result = {
        "contestant": contestant.name,
        "session_ms": round((time.perf_counter() - started) * 1000),
        "batches": [_batch(each, written) for each in progress],
        "state": progress[-1]["stateOperators"],
        "shards": _shards(progress),
    }
    if any(checkpoint.glob("idlestate/*")):
        result["state_digest"] = _digest(spark, checkpoint)
        result["runs_on_disk"] = sum(
            path.stat().st_size for path in checkpoint.glob("idlestate/*/runs/*/*.arrow")
        )
    spark.stop()
    if job["master"] != LOCAL:
        result["executors"] = held_by_executor(scratch / "log", result["shards"])
    Path(result_file).write_text(json.dumps(result))


def _digest(spark: SparkSession, checkpoint: Path) -> int:
    """A number that two final states share when they are equal."""
    state = read_state(spark, str(checkpoint))
    row = state.select(F.bit_xor(F.xxhash64(*state.columns)).alias("digest")).first()
    return int(row.digest) if row else 0


def _batch(progress: dict[str, Any], written: dict[int, int]) -> dict[str, Any]:
    operators = progress["stateOperators"]
    seen = progress.get("observedMetrics", {}).get("sink", {})
    return {
        "batch_id": progress["batchId"],
        "began": progress["timestamp"],
        "rows": progress["numInputRows"],
        "ms": progress["durationMs"]["triggerExecution"],
        "parts_ms": progress["durationMs"],
        "update_ms": sum(each["allUpdatesTimeMs"] for each in operators),
        "timer_ms": sum(
            each["customMetrics"].get("timerProcessingTimeMs", 0) for each in operators
        ),
        "commit_ms": sum(each["commitTimeMs"] for each in operators),
        "state_rows": sum(each["numRowsTotal"] for each in operators),
        "sink_rows": seen.get("rows", 0),
        "expire_rows": seen.get("expired", 0),
        "written_bytes": written.get(progress["batchId"], 0),
        "bytes_per_live_row": _bytes_per_live_row(progress),
    }


def _bytes_per_live_row(progress: dict[str, Any]) -> float | None:
    """Bytes of runs per open life, or per row that a join keeps, after a batch."""
    shards = _shards([progress])
    live = sum(shard["live_keys"] for shard in shards)
    return sum(shard["state_bytes"] for shard in shards) / live if live else None


def _shards(progress: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest report of each shard of retain."""
    found: dict[int, dict[str, Any]] = {}
    for each in progress:
        for report in reports_in(each, UID) or []:
            found[report.shard] = report.as_dict()
    return list(found.values())


if __name__ == "__main__":
    main(*sys.argv[1:])
