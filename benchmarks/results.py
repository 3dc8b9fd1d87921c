"""Results: what the runs of one job came to, its later batches taken together."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs import Job


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of a job over all of its runs."""

    job: Job
    rates: list[float]
    """Rows per second of each later batch."""
    first_ms: int
    """The first batch, JVM cold: the shortest of the runs."""
    peak: dict[str, int]
    """Peak memory in bytes: total, jvm, python; 0 where it could not be seen."""
    bytes_per_key: float | None
    written: float
    """Bytes written to the checkpoint per later batch."""
    processor_ms: float
    """Processor time of all processes per later batch."""
    live_keys: int
    expire_rows: int
    """Expire rows that reached the sink in one run."""
    expired: int
    """Lives that the operator says it ended in one run."""
    returning_keys: int
    late: int
    spans_max: float
    """Batch times from first to last, in maxima of the windows."""
    batch_ms: list[int]
    """Duration of each later batch."""
    written_mean: float
    """Bytes written to the checkpoint per later batch on average: merges are few and large."""
    rows_per_life: float
    """Rows in the files that the newest version names, per open life."""
    named_bytes: int
    """Bytes of these files."""
    disk_bytes: int
    """Bytes of all files of runs, those that only older versions name included."""
    digest: int | None
    """Equal for equal final states of retain."""
    executors: list[dict[str, int]]
    """On a cluster: rows and bytes of state per executor."""
    later: list[dict[str, Any]]
    """The later batches of the last run."""
    batches: list[dict[str, Any]]
    """Every batch of the last run."""

    @property
    def median(self) -> float:
        """Rows per second of the median batch."""
        return statistics.median(self.rates)


def result_of(job: Job, runs: Sequence[dict[str, Any]]) -> Result:
    """Put the runs of a job together."""
    later = [batch for run in runs for batch in later_batches(job, run)]
    last = runs[-1]
    shards = last["shards"]
    first = [run["batches"][0] for run in runs]
    return Result(
        job=job,
        rates=[batch["rows"] * 1000 / batch["ms"] for batch in later],
        first_ms=min(batch["ms"] for batch in first),
        peak={name: max(run["memory"][name] for run in runs) for name in last["memory"]},
        bytes_per_key=_bytes_per_key(last),
        written=statistics.median(batch["written_bytes"] for batch in later),
        processor_ms=statistics.mean(batch["jvm_ms"] + batch["python_ms"] for batch in later),
        live_keys=sum(s["live_keys"] for s in shards) or last["batches"][-1]["state_rows"],
        expire_rows=sum(batch["expire_rows"] for batch in last["batches"]),
        expired=sum(s[name] for s in shards for name in s if name.startswith("expired_")),
        returning_keys=sum(s["returning_keys"] for s in shards),
        late=sum(s["late"] for s in shards),
        spans_max=_span_ms(job, last) / job.windows.max_ms if job.windows else 0,
        batch_ms=[batch["ms"] for batch in later],
        written_mean=statistics.mean(batch["written_bytes"] for batch in later),
        rows_per_life=sum(s["stored_rows"] for s in shards)
        / max(1, sum(s["live_keys"] for s in shards)),
        named_bytes=sum(s["state_bytes"] + s["remembered_bytes"] for s in shards),
        disk_bytes=last.get("runs_on_disk", 0),
        digest=last.get("state_digest"),
        executors=last.get("executors", []),
        later=later_batches(job, last),
        batches=last["batches"],
    )


def later_batches(job: Job, run: dict[str, Any]) -> list[dict[str, Any]]:
    """The whole batches of a run after its warm-up."""
    whole = [batch for batch in _after_prelude(job, run) if batch["rows"] >= job.recipe.rows]
    return whole[job.warm_up :]


def _after_prelude(job: Job, run: dict[str, Any]) -> list[dict[str, Any]]:
    return [batch for batch in run["batches"] if batch["rows"]][job.recipe.prelude :]


def _span_ms(job: Job, run: dict[str, Any]) -> float:
    begins = [datetime.fromisoformat(batch["began"]) for batch in _after_prelude(job, run)]
    return (begins[-1] - begins[0]).total_seconds() * 1000


def _bytes_per_key(run: dict[str, Any]) -> float | None:
    """retain: its runs. Spark: RocksDB's files and memory, since part of it is in neither alone."""
    live = sum(shard["live_keys"] for shard in run["shards"])
    if live:
        return float(sum(shard["state_bytes"] for shard in run["shards"]) / live)
    rows = sum(each["numRowsTotal"] for each in run["state"])
    size = sum(
        each["memoryUsedBytes"] + each["customMetrics"].get("rocksdbSstFileSize", 0)
        for each in run["state"]
    )
    return size / rows if rows and not run["shards"] else None
