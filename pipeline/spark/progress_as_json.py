"""Passes on Spark's progress of every query of a session, as JSON text.

Each of Spark's progress objects costs many calls into the JVM; its JSON costs one.
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from idlestate.pipeline.spark.spark_query import java_listener


class ProgressListener(StreamingQueryListener):
    """Passes on the events of a session's queries, in Spark's order.

    Args:
        spark: the session.
        take: called with a kind (`started`, `progress`, `ended`), and with the id of a query's run
            or the progress as JSON. Spark waits for it, so it must be fast.
    """

    def __init__(self, spark: SparkSession, take: Callable[[str, str], None]) -> None:
        self._spark = spark
        self.take = take

    @property
    def _jlistener(self) -> Any:  # where Spark asks for its adapter
        if not hasattr(self, "_adapter"):  # the same one again to remove it
            self._adapter = java_listener(self._spark, _JsonAdapter(self))
        return self._adapter

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Pass on which run has started."""
        self.take("started", str(event.runId))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """The adapter passes progress on."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Does nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Pass on which run has ended."""
        self.take("ended", str(event.runId))


class _JsonAdapter(JStreamingQueryListener):
    """Spark's adapter, which reads progress as JSON."""

    pylistener: ProgressListener

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        self.pylistener.take("progress", jevent.progress().json())
