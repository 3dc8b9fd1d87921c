"""A query that has read what a rollback of another query undid does not start."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError
from idlestate.pipeline.sinks.owned_folder import SinkFolder
from idlestate.pipeline.sinks.upstream_rollback import refuse_undone_input


def note(checkpoint: Path, name: str, *files: Path) -> None:
    entries = [{"path": file.as_uri(), "timestamp": 1, "batchId": 0} for file in files]
    folder = checkpoint / "sources" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(["v1", *map(json.dumps, entries)]))


@pytest.mark.parametrize("batch", ["", "batch_id=3"])
def test_it_is_refused_with_the_file_that_it_has_read(
    spark: SparkSession, tmp_path: Path, batch: str
) -> None:
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out put"
    sink = SinkFolder(spark, str(out))
    note(checkpoint, "0.compact", out / batch / "part-a.parquet", out / batch / "part-b.parquet")
    note(checkpoint, "1", out / batch / "part-c.parquet")
    refuse_undone_input(spark, Folder(str(checkpoint)))  # no query of idlestate wrote these
    sink.note_undone(["part-x.parquet"])
    refuse_undone_input(spark, Folder(str(checkpoint)))  # this one has not been read
    sink.note_undone(["part-b.parquet"])
    assert sink.undone() == {"part-b.parquet", "part-x.parquet"}
    with pytest.raises(RefusedError, match=r"has read \S+/part-b.parquet, which a rollback"):
        refuse_undone_input(spark, Folder(str(checkpoint)))
