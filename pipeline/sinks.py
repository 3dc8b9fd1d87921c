"""Sinks: one query's changelog written to a folder for updates, one for ends, one for rejects.

    query = changes.writeStream.foreachBatch(FolderSinks(results="out/results",
                                                         expired="out/expired")).start()

A batch is written once, by Spark, to a staging folder with one part per kind of change; its parts
are then moved into place as `<folder>/batch_id=<N>/`. What was rejected is a column of the rejects
alone: to the staging folder it goes behind their reason, and is put in its place there. A batch
that runs again replaces its own folders, so each batch counts once however often it was tried. Each
folder carries the id of the query that owns it (`_idlestate.json`, which readers skip).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import StructType

from idlestate.pipeline.changelog import REJECT, REJECTED
from idlestate.pipeline.errors import IdlestateError, RefusedError, marked

_MARK = "_idlestate.json"
_STAGING = "_staging"
_MARKS_SUCCESS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


@dataclass(frozen=True, slots=True)
class FolderSinks:
    """Writes batches of a changelog; give it to `foreachBatch`.

    Attributes:
        results: folder of `update` rows.
        expired: folder of `expire` rows; None drops them.
        rejects: folder of `reject` rows; None drops them.
        format: parquet, json or csv.
    """

    results: str
    expired: str | None = None
    rejects: str | None = None
    format: str = "parquet"

    def __call__(self, changes: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        spark = changes.sparkSession
        try:
            query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
            self.claim(spark, query_id)
            self._write(spark, changes, batch_id)
        except IdlestateError as error:
            raise marked(error) from error

    def claim(self, spark: SparkSession, query_id: str | None) -> None:
        """Refuse folders of another query, and mark the others as this one's.

        A query that has no id yet (None) owns nothing: it only takes folders that are empty or
        not there, and marks none.

        Raises:
            RefusedError: a folder belongs to another query, or holds other files.
        """
        for folder in self._folders().values():
            _claim(_Files(spark, folder), query_id)

    def forget_after(self, spark: SparkSession, batch_id: int) -> None:
        """Remove what later batches wrote, which were undone since; before the query starts."""
        for folder in self._folders().values():
            files = _Files(spark, folder)
            for name in list(files.names()):
                _, found, number = name.partition("batch_id=")
                if found and number.isdigit() and int(number) > batch_id:
                    files.remove(name)

    def _folders(self) -> dict[str, str]:
        pairs = {"update": self.results, "expire": self.expired, REJECT: self.rejects}
        return {change: folder for change, folder in pairs.items() if folder is not None}

    def _write(self, spark: SparkSession, changes: DataFrame, batch_id: int) -> None:
        folders = self._folders()
        staging = f"{self.results}/{_STAGING}"
        wanted = changes.where(F.col("change").isin(list(folders)))
        # The folder's own name carries the batch id; the change is what the row is split by.
        rows = wanted.drop("batch_id").withColumn("_change", F.col("change"))
        if REJECTED in rows.columns:
            whole = F.concat("reason", F.lit(" "), F.hex(REJECTED))
            reason = F.when(F.col("change") == REJECT, whole).otherwise(F.col("reason"))
            rows = rows.withColumn("reason", reason).drop(REJECTED)
        rows.write.partitionBy("_change").mode("overwrite").format(self.format).save(staging)
        staged = _Files(spark, staging)
        if REJECTED in changes.columns and self.rejects is not None:
            self._put_apart(spark, rows.schema, staged)
        for change, folder in folders.items():
            target = _Files(spark, folder)
            target.remove(f"batch_id={batch_id}")
            staged.move(f"_change={change}", target, f"batch_id={batch_id}")
        staged.remove("")

    def _put_apart(self, spark: SparkSession, schema: StructType, staged: "_Files") -> None:
        """Give staged rejects the column of their own."""
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


def _claim(files: "_Files", query_id: str | None) -> None:
    files.make()
    owner = files.read(_MARK)
    if owner is None:
        strangers = [name for name in files.names() if not name.startswith((".", "_"))]
        if strangers:
            raise RefusedError(
                f"sink folder {files.folder} holds files that idlestate did not write "
                f"({strangers[0]}); name an empty or new folder"
            )
        if query_id is not None:
            files.write(_MARK, json.dumps({"query_id": query_id}))
        return
    if json.loads(owner)["query_id"] != query_id:
        raise RefusedError(
            f"sink folder {files.folder} belongs to another query (a deleted or different "
            "checkpoint); name a new folder, give the query its old checkpoint back, or begin "
            "everything anew: idlestate run FILE --afresh"
        )


class _Files:
    """A folder through Hadoop's file systems, which Spark writes with."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.folder = folder
        # Spark has no public file API.
        self._jvm = cast("Any", spark.sparkContext._jvm)  # noqa: SLF001
        self._root = self._jvm.org.apache.hadoop.fs.Path(folder)
        configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        self._system = self._root.getFileSystem(configuration)

    def path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def names(self) -> Iterator[str]:
        if self._system.exists(self._root):
            for status in self._system.listStatus(self._root):
                yield status.getPath().getName()

    def has(self, name: str) -> bool:
        found: bool = self._system.exists(self.path(name))
        return found

    def read(self, name: str) -> str | None:
        if not self.has(name):
            return None
        stream = self._system.open(self.path(name))
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text

    def make(self) -> None:
        """Make the folder, unless it is there.

        Raises:
            RefusedError: it cannot be.
        """
        try:
            self._system.mkdirs(self._root)
        except Py4JJavaError as error:
            reason = error.java_exception.getMessage()
            raise RefusedError(f"sink folder {self.folder} cannot be made: {reason}") from error

    def write(self, name: str, text: str) -> None:
        """A file that is there whole or not at all, also when the process is killed."""
        draft = self.path(f"{name}.draft")
        stream = self._system.create(draft, True)  # noqa: FBT003 - overwrite; Java knows no names
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self._system.rename(draft, self.path(name))

    def remove(self, name: str) -> None:
        self._system.delete(self.path(name), True)  # noqa: FBT003 - with all that is in it

    def move(self, name: str, target: "_Files", new_name: str) -> None:
        if not self.has(name):
            return
        target._system.mkdirs(target._root)  # noqa: SLF001 - the same class
        if not self._system.rename(self.path(name), target.path(new_name)):
            raise RefusedError(
                f"{self.path(name)} cannot be moved to {target.path(new_name)}: results, expired "
                "and rejects must be folders of one file system"
            )
