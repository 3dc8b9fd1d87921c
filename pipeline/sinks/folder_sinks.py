"""Sinks: write one query's changelog to separate folders for updates, expired rows and rejects.

    query = changes.writeStream.foreachBatch(FolderSinks(results="out/results",
                                                         expired="out/expired")).start()

Spark writes a batch once, to a staging folder with one part per kind of change. The parts are then
moved into place as `<folder>/batch_id=<N>/`. The output of `over` and `process` is not a changelog:
all of its rows are results. Only rejects have the column `rejected`: in the staging folder, its
content follows the reason, and is then split off.

A batch that runs again after a crash has the same rows. So the folders that it has already written
stay, because other queries may have read them, and only the missing ones are written. After a
rollback, a batch replaces its folders.
Each sink's folder has the id of the query that owns it (`_idlestate.json`, which readers skip), and
each folder of a batch the number of rollbacks before it (`_rollbacks`).
"""

import posixpath
from dataclasses import dataclass
from itertools import permutations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import StructType

from idlestate.backends.checkpoint.rollback_count import rollback_count
from idlestate.backends.checkpoint.source_log import files_of_batch
from idlestate.backends.files.folder import Folder
from idlestate.errors import IdlestateError, RefusedError
from idlestate.pipeline.sinks.owned_folder import SinkFolder
from idlestate.pipeline.spark.hadoop import Hadoop
from idlestate.pipeline.spark.local_properties import CHECKPOINT_PROPERTY
from idlestate.pipeline.spark.task_errors import marked
from idlestate.retention.added_columns import CHANGE_COLUMNS, EXPIRE, REJECT, REJECTED, UPDATE

_STAGING = "_staging"
_ROLLBACKS = "_rollbacks"
"""A file in the folder of a batch, which readers skip."""
_MARKS_SUCCESS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


@dataclass(frozen=True, slots=True)
class FolderSinks:
    """Writes batches of a changelog to folders; pass it to `foreachBatch`.

    Attributes:
        results: folder of `update` rows, or of all rows if the output is not a changelog.
        expired: folder of `expire` rows; None drops them.
        rejects: folder of `reject` rows; None drops them.
        format: parquet, json or csv.
    """

    results: str
    expired: str | None = None
    rejects: str | None = None
    format: str = "parquet"

    def __post_init__(self) -> None:
        """Refuse folders that overlap: each would remove what another one has written.

        Raises:
            RefusedError: two folders are equal, or one is inside another.
        """
        given = {"results": self.results, "expired": self.expired, "rejects": self.rejects}
        folders = {name: f"{_normal(place)}/" for name, place in given.items() if place is not None}
        for (name, outer), (other, inner) in permutations(folders.items(), 2):
            if inner.startswith(outer):
                where = "the same folder as" if inner == outer else "inside the folder of"
                raise RefusedError(
                    f"sink {other} is {where} {name} ({given[name]}); pass a separate folder for "
                    "each"
                )

    def __call__(self, changes: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        spark = changes.sparkSession
        try:
            query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
            self.claim(spark, query_id)
            _refuse_gone_input(spark, batch_id)
            self._write(spark, changes, batch_id)
        except IdlestateError as error:
            raise marked(error) from error

    def check_writable(self, spark: SparkSession) -> None:
        """Create the folders, and test that each is writable with a temporary file.

        `foreachBatch` does so in a session in which an operator was called: from a batch, an error
        would come inside Spark's own.

        Raises:
            RefusedError: a folder cannot be written.
        """
        for folder in self.folders(spark).values():
            folder.make()
            folder.check_writable()

    def claim(self, spark: SparkSession, query_id: str | None) -> None:
        """Refuse folders of another query, and mark the others as owned by this query.

        A query without an id (None) owns nothing: it accepts only empty or missing folders, and
        marks none.

        Raises:
            RefusedError: a folder belongs to another query, or holds other files.
        """
        for folder in self.folders(spark).values():
            _claim(folder, query_id)

    def forget_after(self, spark: SparkSession, batch_id: int) -> None:
        """Remove the output of later batches, which were undone; before the query starts."""
        for folder in self.folders(spark).values():
            for name in list(folder.names()):
                _, found, number = name.partition("batch_id=")
                if found and number.isdigit() and int(number) > batch_id:
                    _undo(spark, folder, name)

    def folders(self, spark: SparkSession) -> dict[str, SinkFolder]:
        """The folder of each kind of change."""
        named = {
            UPDATE: ("results", self.results),
            EXPIRE: ("expired", self.expired),
            REJECT: ("rejects", self.rejects),
        }
        return {
            change: SinkFolder(spark, folder, f"sink {name}")
            for change, (name, folder) in named.items()
            if folder is not None
        }

    def _write(self, spark: SparkSession, changes: DataFrame, batch_id: int) -> None:
        folders = self.folders(spark)
        staged = SinkFolder(spark, f"{self.results}/{_STAGING}", folders[UPDATE].sink)
        # So that an error names the sink, unlike Spark's own.
        staged.make()
        told = changes.withColumn("_change", _change_of(changes))
        # The folder's name has the batch id, and rows are partitioned by `_change`.
        rows = told.where(F.col("_change").isin(list(folders))).drop("batch_id")
        if REJECTED in rows.columns:
            whole = F.concat("reason", F.lit(" "), F.hex(REJECTED))
            reason = F.when(F.col("_change") == REJECT, whole).otherwise(F.col("reason"))
            rows = rows.withColumn("reason", reason).drop(REJECTED)
        rows.write.partitionBy("_change").mode("overwrite").format(self.format).save(staged.folder)
        if REJECTED in changes.columns and self.rejects is not None:
            self._put_apart(spark, rows.schema, staged)
        rollbacks = _rollbacks(spark)
        for change, target in folders.items():
            name, done = f"_change={change}", f"batch_id={batch_id}"
            if rollbacks is not None and target.read(f"{done}/{_ROLLBACKS}") == rollbacks:
                continue
            _undo(spark, target, done)
            if rollbacks is not None and staged.has(name):
                staged.write(f"{name}/{_ROLLBACKS}", rollbacks)
            staged.move(name, target, done)
        staged.remove("")

    def _put_apart(self, spark: SparkSession, schema: StructType, staged: SinkFolder) -> None:
        """Add the column `rejected` to staged rejects."""
        name = f"_change={REJECT}"
        if not staged.has(name):
            return
        columns = StructType([field for field in schema if field.name != "_change"])
        rows = spark.read.format(self.format).schema(columns).load(f"{staged.folder}/{name}")
        parts = F.split("reason", " ")
        rejected = F.unhex(parts[1]).cast("string")
        rows = rows.withColumns({"reason": parts[0], REJECTED: rejected})
        writer = rows.write.format(self.format).option(_MARKS_SUCCESS, "false")
        writer.save(f"{staged.folder}/_apart")
        staged.remove(name)
        staged.move("_apart", staged, name)


def _normal(place: object) -> str:
    """A path or URL without redundant parts."""
    if not isinstance(place, str):
        raise RefusedError(f"{place!r} is not a folder of a sink; pass a path or URL as a string")
    return posixpath.normpath(place)


def _undo(spark: SparkSession, sink: SinkFolder, batch: str) -> None:
    """Remove the folder of a batch that was undone, if it exists."""
    files = SinkFolder(spark, f"{sink.folder}/{batch}").names()
    sink.note_undone(name for name in files if not name.startswith((".", "_")))
    sink.remove(batch)


def _refuse_gone_input(spark: SparkSession, batch_id: int) -> None:
    """Refuse a batch if a file that it reads is missing: Spark would silently skip the file."""
    checkpoint = spark.sparkContext.getLocalProperty(CHECKPOINT_PROPERTY)
    if not checkpoint:
        return
    hadoop = Hadoop(spark)
    for url in files_of_batch(Folder(checkpoint), batch_id):
        if not hadoop.exists(url):
            raise RefusedError(
                f"input file {url} is gone, and batch {batch_id} reads it; put it back, or a file "
                "without rows in its place, and start again: the query continues with this batch"
            )


def _rollbacks(spark: SparkSession) -> str | None:
    """How often the query's checkpoint was rolled back; None without a query of idlestate."""
    checkpoint = spark.sparkContext.getLocalProperty(CHECKPOINT_PROPERTY)
    return str(rollback_count(Folder(checkpoint))) if checkpoint else None


def _change_of(rows: DataFrame) -> Column:
    """The folder for each row."""
    if {*CHANGE_COLUMNS} <= {*rows.columns}:
        return F.col("change")
    update = F.lit(UPDATE)
    if REJECTED not in rows.columns:
        return update
    return F.when(F.col("reason").isNotNull(), F.lit(REJECT)).otherwise(update)


def _claim(files: SinkFolder, query_id: str | None) -> None:
    files.make()
    if files.is_owned_by(query_id):
        return
    strangers = [name for name in files.names() if not name.startswith((".", "_"))]
    if strangers:
        raise RefusedError(
            f"{files.sink}: folder {files.folder} holds files that idlestate did not write "
            f"({strangers[0]}); choose an empty or new folder"
        )
    if query_id is None:
        files.check_writable()
    else:
        files.own(query_id)
