"""The offset and commit logs of Spark's checkpoint: times, sources and partitions of a batch.

Spark writes `offsets/<N>` before batch N runs and never changes it, so every task, retry and
replay of N reads the same watermark and the same batch time.
"""

import json
import re
from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import Any

from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.errors import DamagedStateError, RefusedError

NO_WATERMARK_MS = -1
REACHED = "reached_ms"
"""The one field of the offsets of `idlestate.pipeline.reached_source`."""
_UNFINISHED = re.compile(r"\.{1,2}0\.[0-9a-f-]{36}\.tmp(\.crc)?")
"""`.0.<uuid>.tmp`, and the checksum that Hadoop writes next to a local file."""


def read_batch_times(checkpoint: Folder, batch_id: int) -> BatchTimes:
    """Times of a batch from the offset log."""
    with _as_written(checkpoint, f"offsets/{batch_id}"):
        metadata = _metadata(checkpoint, batch_id)
        return BatchTimes(batch_id, metadata["batchWatermarkMs"], metadata["batchTimestampMs"])


def newest_batch(checkpoint: Folder, log: str) -> int | None:
    """The highest batch in the log `offsets` or `commits`; None if it is empty."""
    numbers = [int(name) for name in checkpoint.names(log) if name.isdigit()]
    return max(numbers, default=None)


def newest_committed(checkpoint: Folder) -> int | None:
    """The newest committed batch; None before the first.

    Raises:
        DamagedStateError: a later batch was planned, so a commit is lost.
    """
    # In this order: a running query may commit and plan batches in between.
    planned = newest_batch(checkpoint, "offsets")
    committed = newest_batch(checkpoint, "commits")
    if planned is not None and planned > (-1 if committed is None else committed) + 1:
        raise DamagedStateError(
            f"{checkpoint.shown(f'commits/{planned - 1}')} is missing, although batch {planned} "
            "was planned after it; restore it from a copy of the checkpoint"
        )
    return committed


def forget_entry(checkpoint: Folder, log: str, name: object) -> None:
    """Remove an entry of one of Spark's logs, such as a batch of `commits`."""
    checkpoint.remove(f"{log}/{name}")
    # Hadoop writes a checksum next to a local file.
    checkpoint.remove(f"{log}/.{name}.crc")


def clear_half_planned(checkpoint: Folder) -> None:
    """Remove the remains of a first start that was killed while it wrote the plan of batch 0.

    Spark writes a temporary file and then renames it. It refuses to start a query without planned
    batches as long as such a file is in its log.
    """
    if newest_batch(checkpoint, "offsets") is None:
        for rest in checkpoint.names("offsets"):
            if _UNFINISHED.fullmatch(rest):
                checkpoint.remove(f"offsets/{rest}")


def pinned_partitions(checkpoint: Folder) -> int | None:
    """The state partitions of the newest batch; None before the first."""
    newest = newest_batch(checkpoint, "offsets")
    return None if newest is None else partitions_at(checkpoint, newest)


def partitions_at(checkpoint: Folder, batch_id: int) -> int:
    """The state partitions of a planned batch; offline repartition changes them."""
    with _as_written(checkpoint, f"offsets/{batch_id}"):
        conf = _metadata(checkpoint, batch_id)["conf"]
        return int(conf["spark.sql.shuffle.partitions"])


def has_data(checkpoint: Folder, batch_id: int) -> bool:
    """Whether a batch has input: Spark runs some batches only to advance time."""
    before = f"offsets/{batch_id - 1}"
    if not checkpoint.exists(before):
        return True
    return source_offsets(checkpoint, batch_id) != source_offsets(checkpoint, batch_id - 1)


def owed_sweep(checkpoint: Folder) -> int | None:
    """The newest committed batch if the sweep at its watermark has not run, else None."""
    committed = newest_batch(checkpoint, "commits")
    planned = newest_batch(checkpoint, "offsets")
    if committed is None or planned is None or committed != planned:
        return None
    reached_ms = reached_watermark_ms(checkpoint, committed)
    return committed if reached_ms > read_batch_times(checkpoint, planned).watermark_ms else None


def plan_end(checkpoint: Folder, reached_ms: int) -> None:
    """Plan one more batch, without data, in which the watermark is `reached_ms`.

    The source that triggers such batches for a sidecar's operators has reached it, too. Every
    planned batch must be committed. At the next start, Spark runs the batch like an interrupted
    one: from then on, its plan decides.
    """
    newest = newest_batch(checkpoint, "offsets")
    name = f"offsets/{newest}"
    with _as_written(checkpoint, name):
        version, metadata, *offsets = checkpoint.read(name).decode().splitlines()
        planned = json.dumps(json.loads(metadata) | {"batchWatermarkMs": reached_ms})
        reached = json.dumps({REACHED: reached_ms})
        offsets = [reached if _fields(text) == {REACHED} else text for text in offsets]
        following = int(name.rpartition("/")[2]) + 1
    text = "\n".join([version, planned, *offsets])
    checkpoint.replace(f"offsets/{following}", text.encode())


def reached_watermark_ms(checkpoint: Folder, batch_id: int) -> int:
    """The watermark after a committed batch: W of the next one."""
    name = f"commits/{batch_id}"
    with _as_written(checkpoint, name):
        _, commit, *_ = checkpoint.read(name).decode().splitlines()
        reached_ms: int = json.loads(commit)["nextBatchWatermarkMs"]
        return reached_ms


def expired_read(checkpoint: Folder) -> int:
    """How many of a sidecar's expired records the planned batches have read."""
    newest = newest_batch(checkpoint, "offsets")
    offsets = [] if newest is None else source_offsets(checkpoint, newest)
    numbers = (json.loads(text)["seq"] for text in offsets if _fields(text) == {"seq"})
    return next(numbers, 0)


def source_offsets(checkpoint: Folder, batch_id: int) -> list[str]:
    """The end offsets of a planned batch by source, in the source's own format, mostly JSON."""
    name = f"offsets/{batch_id}"
    with _as_written(checkpoint, name):
        _, _, *offsets = checkpoint.read(name).decode().splitlines()
        return offsets


def _fields(offset: str) -> Set[str]:
    """The fields of a source's offset, if it is a JSON object."""
    return json.loads(offset).keys() if offset.startswith("{") else set()


@contextmanager
def _as_written(checkpoint: Folder, name: str) -> Iterator[None]:
    """Wraps reading an entry. Sidecars use it too, so it does not import Spark.

    Raises:
        DamagedStateError: the entry is not complete, as after a torn write.
        RefusedError: it lacks a field, so another version of Spark may have written it.
    """
    try:
        yield
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise DamagedStateError(
            f"{checkpoint.shown(name)} is damaged (not an entry of Spark's log); restore it from a "
            "copy of the checkpoint"
        ) from error
    except KeyError as error:
        raise RefusedError(
            f"cannot find {error} of a batch in {name} of checkpoint {checkpoint}: "
            "idlestate was written for Spark 4.1 to 4.3 as Apache publishes them; use one of "
            "these, or a version of idlestate that supports the one that wrote the checkpoint"
        ) from error


def _metadata(checkpoint: Folder, batch_id: int) -> dict[str, Any]:
    _, second, *_ = checkpoint.read(f"offsets/{batch_id}").decode().splitlines()
    metadata: dict[str, Any] = json.loads(second)
    return metadata


def committed_batch(checkpoint: Folder, batch_id: int | None = None) -> int:
    """The newest committed batch, or the given one if it is committed.

    Raises:
        RefusedError: there is none, or the given one is not committed.
    """
    newest = newest_committed(checkpoint)
    if newest is None:
        raise RefusedError(f"checkpoint {checkpoint} has no committed batch yet")
    if batch_id is not None and not checkpoint.exists(f"commits/{batch_id}"):
        raise RefusedError(
            f"checkpoint {checkpoint} has no committed batch {batch_id}; the newest is {newest}"
        )
    return newest if batch_id is None else batch_id
