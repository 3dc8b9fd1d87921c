"""Spark's progress of every query of a session, as JSON text; the listener only hands it over.

Spark's own objects of progress cost many calls into the JVM each; their JSON is one.
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener, StreamingQueryListener

from idlestate.pipeline.spark_query import java_listener


class ProgressListener(StreamingQueryListener):
    """Hands over what happens to the queries of a session, in Spark's order.

    Args:
        spark: the session.
        take: takes a kind (`started`, `progress`, `ended`), and the id of a query's run or the
            progress as JSON. Spark waits for it, so it must not take long.
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
        """Say which run has started."""
        self.take("started", str(event.runId))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """The adapter hands progress over."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing has changed."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Say which run has ended."""
        self.take("ended", str(event.runId))


class _JsonAdapter(JStreamingQueryListener):
    """Spark's adapter, which takes progress as JSON."""

    pylistener: ProgressListener

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        self.pylistener.take("progress", jevent.progress().json())
