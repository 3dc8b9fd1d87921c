"""Refuses a query that has read output of another query that a rollback has undone."""

from itertools import chain

from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.source_log import files_read
from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError
from idlestate.pipeline.sinks.owned_folder import SinkFolder
from idlestate.pipeline.spark.hadoop import Hadoop


def refuse_undone_input(spark: SparkSession, checkpoint: Folder) -> None:
    """Check the files that a query has read, before it reads those that replace them.

    Args:
        spark: the session of the query.
        checkpoint: the query's checkpoint, without entries of batches that are not planned.

    Raises:
        RefusedError: it has read files that were undone.
    """
    for urls in files_read(checkpoint):
        first = next(urls, None)
        undone = set() if first is None else _sink_of(spark, first).undone()
        if first is None or not undone:
            continue  # the usual case: the rest of the log is not read
        for url in chain([first], urls):
            if url.rpartition("/")[2] in undone:
                raise RefusedError(
                    f"checkpoint {checkpoint} has read {url}, which a rollback of the query that "
                    "wrote it has undone: the rows that replace it would count twice; start this "
                    "query with a new checkpoint and a new sink"
                )


def _sink_of(spark: SparkSession, url: str) -> SinkFolder:
    """The folder of the sink that wrote a file, if one did."""
    folder = Hadoop(spark).path_of_url(url).getParent()
    while "=" in folder.getName():  # the folder of a batch, or of a partition
        folder = folder.getParent()
    return SinkFolder(spark, folder.toString(), "source")
