"""Reads checkpoints back, in a process and a JVM of its own: prints one JSON line for each.

    python tests/crash/state_reader.py UID LOG CHECKPOINT...

A line is {"lives": [[name, value], ...] per life, "counts": {name: number}, "changes": [row, ...]
of the sink `changes` beside the checkpoint, if there is one}; times in ms. A sidecar that stands
beside a checkpoint's folder is started for the reading.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Behind everything else, so that no room of the project is found by its bare name first.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import committed_batch
from idlestate.backends.shards.row_counts import RowCounts
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.pipeline.checkpoint.recorded_shards import recorded_shards
from idlestate.pipeline.checkpoint.state_store_shards import read_shards
from idlestate.pipeline.read_state import read_state
from idlestate.pipeline.sidecar_attachment import link_of, reports_of
from idlestate.service.spark_session import start_spark
from idlestate.sidecar.client.private_sidecar import stop_private_sidecar
from tests.crash.own_job import CHANGES
from tests.crash.served_sidecar import ServedSidecar


def main(uid: str, log: str, checkpoints: list[str]) -> None:
    spark = start_spark(2, Path(log))
    for checkpoint in checkpoints:
        with serving(Path(checkpoint).parents[1]):
            rows = read_state(spark, checkpoint, uid).toArrow().to_pylist()
            lives = [{name: plain(value) for name, value in row.items()} for row in rows]
            newest = committed_batch(Folder(checkpoint))
            link = link_of(Folder(checkpoint), uid)
            if link is None:
                shards = read_shards(spark, checkpoint, uid, newest)
                found = counts(assert_copied(checkpoint, uid, shards))
            else:
                found = counts_of(reports_of(Folder(checkpoint), link, newest))
                stop_private_sidecar(Path(checkpoint))
        changes = written(spark, Path(checkpoint).with_name(CHANGES))
        print(json.dumps({"lives": lives, "counts": found, "changes": changes}))
    spark.stop()


def assert_copied(checkpoint: str, uid: str, shards: list[ShardRecord]) -> list[ShardRecord]:
    """The shards, of which the copies next to the runs say the same."""
    folder = Folder(checkpoint)
    layout = read_layout(folder, uid)
    copies = recorded_shards(folder, uid, layout, committed_batch(folder))
    assert copies is not None
    assert {each.shard: each for each in copies} == {each.shard: each for each in shards}
    return shards


def written(spark: SparkSession, sink: Path) -> list[dict[str, Any]]:
    """Rows of a sink as Spark reads them."""
    if not sink.exists():
        return []
    rows = spark.read.parquet(str(sink)).toArrow().to_pylist()
    return [{name: plain(value) for name, value in row.items()} for row in rows]


@contextmanager
def serving(place: Path) -> Iterator[None]:
    """While the sidecar of this place, if it has one of its own, runs."""
    file = place / "sidecar.json"
    if not file.exists():
        yield
        return
    sidecar = ServedSidecar(place, json.loads(file.read_text())["sidecar"]["backend"]).start()
    try:
        yield
    finally:
        sidecar.stop()


def counts_of(reports: list[Any]) -> dict[str, int]:
    """The same from the reports of a sidecar."""
    wanted = ("created", "returning_keys", "expired_lifetime", "expired_ttl", "expired_idle")
    wanted += tuple(each.name for each in fields(RowCounts) if each.name != "highest_ms")
    found = {name: sum(getattr(each, name) for each in reports) for name in wanted}
    return found | {"live": sum(each.live_keys for each in reports)}


def counts(shards: list[Any]) -> dict[str, int]:
    """The cumulative figures of all shards together."""
    found: dict[str, int] = {}
    for shard in shards:
        lifetime, ttl, idle = shard.tally.expired
        each = asdict(shard.rows) | {
            "created": shard.tally.created,
            "returning_keys": shard.tally.returning_keys,
            "expired_lifetime": lifetime,
            "expired_ttl": ttl,
            "expired_idle": idle,
            "live": shard.live_keys,
        }
        each.pop("highest_ms")
        for name, count in each.items():
            found[name] = found.get(name, 0) + count
    return found


def plain(value: Any) -> Any:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
