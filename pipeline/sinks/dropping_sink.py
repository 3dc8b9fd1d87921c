"""Runs the pending batch of a query only for its state, if the sink already has its rows.

Spark's file sink skips a batch that it has logged, without computing it. So for this batch the
query gets a sink that computes the batch and drops its rows, and then its own sink again.

Private to Spark, and the same from 4.1 to 4.3: `StreamExecution.sink`, a field that is read for
each batch, and the interface `Sink`.
"""

from types import SimpleNamespace
from typing import Any

from idlestate.pipeline.spark.spark_query import field_of
from idlestate.pipeline.spark.spark_version import private_part


def drop_rows_of_next_batch(execution: Any) -> None:
    """Make the next batch of a query drop its rows.

    Args:
        execution: the query's `StreamExecution` in the JVM, before its first batch.
    """
    _DroppingSink(execution).take_over()


class _DroppingSink:
    """A sink of Spark in Python, called in the query's own thread like `foreachBatch`."""

    def __init__(self, execution: Any) -> None:
        self._execution = execution
        self._own = execution.sink()
        self._text = str(self._own.toString())
        faces = [face.getName() for face in self._own.getClass().getInterfaces()]
        self.Java = SimpleNamespace(  # Py4J requires this name
            implements=[name for name in faces if name.endswith(".Sink")]
        )

    def take_over(self) -> None:
        """Replace the query's own sink."""
        self._set(self)

    def addBatch(self, _batch_id: int, rows: Any) -> None:  # noqa: N802 - Spark's name
        """Compute the batch; every later one goes to the query's own sink."""
        rows.queryExecution().toRdd().count()
        self._set(self._own)

    # Methods of a Java object, because Spark's plan of this run refers to the sink.

    def toString(self) -> str:  # noqa: N802 - Java's name
        """The text of the query's own sink, which is part of its progress."""
        return self._text

    def hashCode(self) -> int:  # noqa: N802 - Java's name
        """Any number that does not change."""
        return 1

    def equals(self, other: object) -> bool:
        """Whether it is the same object."""
        return other is self

    def _set(self, sink: Any) -> None:
        with private_part("the sink of a query (StreamExecution.sink)"):
            field_of(self._execution, "sink").set(self._execution, sink)
