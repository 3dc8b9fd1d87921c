"""The operator that Spark calls for each shard; loads the step only when there is work.

Before the first batch of a query, Spark starts a Python process on the driver that only asks the
operator for its state variables. So this module imports little: the step and the operator's spec
are loaded when a task has a shard to advance.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
)

from idlestate.pipeline.spark.state_variable import STATE_NAME, STATE_SCHEMA

if TYPE_CHECKING:
    from idlestate.backends.shards.operator_step import OperatorStep
    from idlestate.backends.shards.own_accumulator import Classes
    from idlestate.pipeline.step_on_spark_state import StepOnSparkState


class ShardProcessor(StatefulProcessor):
    """Keeps the shards of one operator."""

    def __init__(
        self, uid: str, operator_step: "OperatorStep", classes: "Classes | None" = None
    ) -> None:
        """Take the operator's uid, by which executors find the spec, its step, such as a user
        function, and the classes of users' accumulators.
        """
        self._uid = uid
        self._operator_step = operator_step
        self._classes = classes or {}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the one state. Spark calls this for each partition of each batch."""
        self._handle = handle
        self._value = handle.getValueState(STATE_NAME, STATE_SCHEMA)

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803, ARG002 - Spark passes it by name
    ) -> Iterator[Row]:
        """Process a batch with data: apply the packets and close what is due."""
        yield from self._step.take_in(int(key[0]), rows)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: Any,  # noqa: N803, ARG002
        expiredTimerInfo: Any,  # noqa: N803, ARG002
    ) -> Iterator[Row]:
        """Close what is due, after the watermark passed a deadline without new data."""
        yield from self._step.sweep(int(key[0]))

    def close(self) -> None:
        """Do nothing, because nothing is open between calls."""

    @cached_property
    def _step(self) -> "StepOnSparkState":
        from idlestate.pipeline.step_on_spark_state import StepOnSparkState  # noqa: PLC0415 - see above

        return StepOnSparkState(
            self._uid, self._handle, self._value, self._operator_step, self._classes
        )
