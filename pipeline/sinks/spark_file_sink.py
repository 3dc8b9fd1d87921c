"""Repairs the log of Spark's own file sink (`start(path)`, `toTable`) before a batch runs again.

The sink logs the files of a batch in `<path>/_spark_metadata/<batch>` before Spark commits the
batch, and skips every batch up to the newest entry. So it would skip a batch that runs again after
a crash or a rollback. A stateful operator that did not run has no state to commit, and Spark would
fail at every start (`CheckpointInfo length: 0`).

After a crash, the batch that runs again has the plan, and so the rows, that the sink has logged.
Other queries may have read its files. So they stay, and the batch runs only for its state
(`idlestate.pipeline.sinks.dropping_sink`). A rollback undoes output too, because the query may have
changed: the entries of undone batches are removed, together with their files.

About every tenth entry is `<batch>.compact`, which also lists the files of all earlier batches.
Removing it loses nothing: Spark keeps the earlier entries for at least as many batches as the
checkpoint (`minBatchesToRetain`), and compacts them again. For that it needs an entry for every
batch, even for batches that the sink never saw, such as that of a repartition.

Private to Spark, and the same from 4.0 to 4.3: `StreamExecution.sink`, `FileStreamSink` with its
text `FileSink[path]` and its `fileLog`, and the layout of the log.
"""

import json
import re
from typing import Any

from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.rollback_count import rollback_count
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import newest_batch
from idlestate.errors import RefusedError
from idlestate.pipeline.sinks.dropping_sink import drop_rows_of_next_batch
from idlestate.pipeline.sinks.owned_folder import SinkFolder
from idlestate.pipeline.spark.spark_version import private_part

_LOG = "_spark_metadata"
_COMPACT = ".compact"


def put_file_sink_right(
    spark: SparkSession, execution: Any, checkpoint: Folder, query_id: str
) -> None:
    """Make the log of a file sink fit the committed batches; ignore other sinks.

    Args:
        spark: the session of the query.
        execution: the query's `StreamExecution` in the JVM, before its first batch.
        checkpoint: the query's checkpoint.
        query_id: the query in the mark of the sink's folder.

    Raises:
        RefusedError: the entries may belong to another query, or earlier ones would be lost too.
    """
    with private_part("the sink of a query"):
        file_sink = execution.sink()
        found = re.fullmatch(r"FileSink\[(.*)\]", file_sink.toString(), re.DOTALL)
    if not found:
        return
    sink = SinkFolder(spark, found[1])
    log = SinkFolder(spark, f"{found[1].rstrip('/')}/{_LOG}")
    committed = newest_batch(checkpoint, "commits")
    kept, ahead = _split(log, -1 if committed is None else committed)
    rollbacks = rollback_count(checkpoint)
    if not sink.is_owned_by(query_id):
        if ahead:
            raise _strange(log, checkpoint, committed, ahead)
        sink.own(query_id, rollbacks)
    is_undone = sink.rollbacks_seen() != rollbacks
    pending = [] if is_undone else _pending(checkpoint, ahead)
    if pending:
        drop_rows_of_next_batch(execution)
        kept, ahead = [*kept, *pending], ahead[len(pending) :]
    if not kept and committed is not None and any(name.endswith(_COMPACT) for name in ahead):
        raise RefusedError(
            f"sink {sink.folder}: {ahead[-1]} in {_LOG} is the only record of the files of batches "
            f"up to {committed}, and batch {committed + 1} has to run again; start with a new "
            "checkpoint and a new folder for the sink"
        )
    _forget(sink, log, kept, ahead)
    if committed is not None:
        _fill(file_sink, log, kept, committed)
    if is_undone:
        sink.own(query_id, rollbacks)


def _pending(checkpoint: Folder, ahead: list[str]) -> list[str]:
    """The entry of the batch that is planned and not committed, if the sink has it."""
    planned = newest_batch(checkpoint, "offsets")
    return [name for name in ahead[:1] if _batch(name) == planned]


def _split(log: SinkFolder, committed: int) -> tuple[list[str], list[str]]:
    """Names of the log up to a batch and after it, oldest first."""
    notes = [name for name in log.names() if name.removesuffix(_COMPACT).isdigit()]
    notes.sort(key=_batch)
    count = sum(_batch(name) <= committed for name in notes)
    return notes[:count], notes[count:]


def _batch(name: str) -> int:
    return int(name.removesuffix(_COMPACT))


def _forget(sink: SinkFolder, log: SinkFolder, kept: list[str], ahead: list[str]) -> None:
    """Remove entries, newest first, before their files: no entry ever names a missing file."""
    if not ahead:
        return
    files = {url for name in ahead for url in _files(log, name)}
    if any(name.endswith(_COMPACT) for name in ahead):
        files -= {url for name in kept for url in _files(log, name)}
    sink.note_undone(url.rpartition("/")[2] for url in files)
    for name in reversed(ahead):
        log.remove(name)
    for url in files:
        sink.remove_own(url)


def _fill(file_sink: Any, log: SinkFolder, kept: list[str], committed: int) -> None:
    """Add empty entries for committed batches after the newest entry."""
    missing: list[str] = []
    for batch in range(committed, _batch(kept[-1]) if kept else -1, -1):
        with private_part("the log of Spark's file sink"):
            field = file_sink.getClass().getDeclaredField("fileLog")
            field.setAccessible(True)
            missing.append(field.get(file_sink).batchIdToPath(batch).getName())
        if not kept and missing[-1].endswith(_COMPACT):
            break  # a new folder: Spark does not look further back
    since = max((at for at, name in enumerate(kept) if name.endswith(_COMPACT)), default=0)
    for name in reversed(missing):
        is_compact = name.endswith(_COMPACT)
        entries = [line for each in kept[since:] for line in _entries(log, each)]
        log.write(name, "\n".join(["v1", *(entries if is_compact else [])]))


def _files(log: SinkFolder, name: str) -> list[str]:
    """URLs of the files in an entry."""
    return [json.loads(entry)["path"] for entry in _entries(log, name)]


def _entries(log: SinkFolder, name: str) -> list[str]:
    _, *entries = (log.read(name) or "").splitlines()
    return entries


def _strange(
    log: SinkFolder, checkpoint: Folder, committed: int | None, ahead: list[str]
) -> RefusedError:
    newest = "has committed none" if committed is None else f"has committed {committed}"
    return RefusedError(
        f"sink {log.folder} lists batches that checkpoint {checkpoint} has not committed "
        f"({', '.join(ahead)}; the checkpoint {newest}), and Spark would skip them. If another "
        "query wrote them, use a new folder for the sink; if this query did, remove these files "
        "and their checksums "
        f"({', '.join(f'.{name}.crc' for name in ahead)}) and start it again"
    )
