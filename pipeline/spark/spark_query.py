"""A starting query in Spark's internal classes.

A listener cannot refuse a query: Spark only logs its exceptions. But it runs in the query's own
thread, which checks the query's state before it plans a batch. So a query that the listener ends
plans no batch. The reason is stored where Spark stores the error of a failed query.
"""

import re
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError, StoreError
from idlestate.pipeline.spark.spark_version import private_part

_TAKEN = "another query with same id is already active"
_MISSING = "checkpointLocation must be specified"
_FULL = "No space left on device"
_OF_FILES = ("java.io.", "org.apache.hadoop.")
NO_CHECKPOINT = (
    "the query has no checkpoint of its own, so its next start would not find its state; set "
    '.option("checkpointLocation", "PATH")'
)
CHECKSUMS = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
_Sink = TypeVar("_Sink")
_RANDOM_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def execution_of(spark: SparkSession, query_id: str) -> Any:
    """Spark's `StreamExecution` of an active query."""
    with private_part("a query that starts (StreamExecution)"):
        return spark._jsparkSession.streams().get(query_id).streamingQuery()  # noqa: SLF001


def plan_of(execution: Any) -> str:
    """The plan as text, but not the logical plan, for which Spark would ask sources for offsets."""
    with private_part("the plan of a query that starts (analyzedPlan)"):
        plan: str = execution.analyzedPlan().toString()
        return plan


def checkpoint_of(execution: Any) -> str:
    """The URL of the query's checkpoint."""
    with private_part("the checkpoint of a query that starts (resolvedCheckpointRoot)"):
        root: str = execution.resolvedCheckpointRoot()
        return root


def partitions_and_batches_of(execution: Any) -> tuple[int, int]:
    """The state partitions of a new checkpoint, and the number of retained batches."""
    with private_part("the settings of a query that starts (sessionState)"):
        settings = execution.sparkSession().sessionState().conf()
        return settings.numShufflePartitions(), settings.minBatchesToRetain()


def leave_checksums_to_hadoop(execution: Any, checkpoint: Folder) -> None:
    """Have a query write a local state store without Spark's own checksums, unless the user set
    whether it does.

    Hadoop keeps a checksum of each local file in a second one. Spark's would double both, and
    Hadoop starts a `chmod` for each file that it writes: four per partition and batch, not two.
    Call it in a listener when the query starts: it changes the session that Spark cloned for it.
    """
    with private_part("the session of a query that starts (sparkSessionForStream)"):
        settings = execution.sparkSessionForStream().sessionState().conf()
        if checkpoint.is_local and not settings.contains(CHECKSUMS):
            settings.setConfString(CHECKSUMS, "false")


def session_id(spark: SparkSession) -> str:
    """The id of a session, unique within this process."""
    with private_part("the session in the JVM (SparkSession._jsparkSession)"):
        return str(spark._jsparkSession.hashCode())  # noqa: SLF001


def java_listener(spark: SparkSession, adapter: JStreamingQueryListener) -> Any:
    """A listener of queries for Spark's internal classes."""
    with private_part("Spark's adapter of listeners (PythonStreamingQueryListenerWrapper)"):
        jvm: Any = spark._jvm  # noqa: SLF001
        return jvm.PythonStreamingQueryListenerWrapper(adapter)


def is_checkpoint_temporary(execution: Any) -> bool:
    """Whether a later start of the query cannot find its checkpoint.

    Without `checkpointLocation`, Spark creates a folder that it removes again, or, for a query
    without a name, a folder with a random name in `spark.sql.streaming.checkpointLocation`.
    """
    with private_part("whether a checkpoint is temporary (deleteCheckpointOnStop)"):
        if field_of(execution, "deleteCheckpointOnStop").get(execution):
            return True
        default = execution.sparkSession().sessionState().conf().checkpointLocation()
    place, _, name = checkpoint_of(execution).rpartition("/")
    return (
        default.isDefined()
        and place.endswith(default.get().rstrip("/"))
        and _RANDOM_NAME.fullmatch(name) is not None
    )


def field_of(execution: Any, name: str) -> Any:
    """A private field of `StreamExecution`, for reflection."""
    kind = execution.getClass()
    while kind.getSimpleName() != "StreamExecution":
        kind = kind.getSuperclass()
    found = kind.getDeclaredField(name)
    found.setAccessible(True)
    return found


def end_query(spark: SparkSession, execution: Any, error: str) -> None:
    """End a query before its first batch; `awaitTermination` and `exception` report the error.

    Call it in a listener when the query starts.
    """
    jvm: Any = spark._jvm  # noqa: SLF001
    with private_part("how a query ends (streamDeathCause, TERMINATED)"):
        raised = jvm.org.apache.spark.sql.streaming.StreamingQueryException(
            error, jvm.java.lang.IllegalArgumentException(error), "", jvm.PythonUtils.toScalaMap({})
        )
        getattr(execution, "streamDeathCause_$eq")(raised)
        state = execution.state()
        package = state.get().getClass().getPackageName()  # differs between versions
        ended = getattr(jvm, f"{package}.TERMINATED$")
        state.set(getattr(ended, "MODULE$"))


def check_starts(check: Callable[[StreamingQuery], None]) -> None:
    """Make `start` and `toTable` of every writer check the query that they started."""
    for name in ("start", "toTable"):
        spark_s = getattr(DataStreamWriter, name)
        if not hasattr(spark_s, "__wrapped__"):
            setattr(DataStreamWriter, name, _checked(spark_s, check))


def check_sinks(kind: type[_Sink], check: Callable[[_Sink, SparkSession], None]) -> None:
    """Make `foreachBatch` of every writer check sinks of this type."""
    spark_s = DataStreamWriter.foreachBatch
    if hasattr(spark_s, "__wrapped__"):
        return

    @wraps(spark_s)
    def foreach_batch(writer: DataStreamWriter, func: Any) -> DataStreamWriter:
        if isinstance(func, kind):
            with private_part("the session of a writer (DataStreamWriter._spark)"):
                spark = writer._spark  # noqa: SLF001
            check(func, spark)
        return spark_s(writer, func)

    setattr(DataStreamWriter, spark_s.__name__, foreach_batch)


def _checked(
    spark_s: Callable[..., StreamingQuery], check: Callable[[StreamingQuery], None]
) -> Callable[..., StreamingQuery]:
    @wraps(spark_s)
    def start(writer: DataStreamWriter, *args: Any, **options: Any) -> StreamingQuery:
        try:
            query = spark_s(writer, *args, **options)
        except Py4JJavaError as error:
            if _TAKEN in str(error.java_exception):
                raise RefusedError(
                    "a query runs on this checkpoint already, and a checkpoint belongs to one "
                    "query: stop that one first, or set checkpointLocation to another folder"
                ) from None
            if error.java_exception.getClass().getName().startswith(_OF_FILES):
                reason = str(error.java_exception.getMessage()).partition("\n")[0]
                kind = StoreError if _FULL in reason else RefusedError
                raise kind(
                    f"the checkpoint of the query cannot be created: {reason}; set "
                    "checkpointLocation to a folder that can be written to"
                ) from None
            raise
        except AnalysisException as error:
            if _MISSING in str(error):  # for a file sink; other sinks get a temporary one
                raise RefusedError(NO_CHECKPOINT) from None
            raise
        check(query)
        return query

    return start
