"""`co_process` batch by batch in the calling process, for tests of functions on two inputs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from idlestate.functions.co_function import KeyedCoProcessFunction
from idlestate.pipeline.co_process import co_operator
from idlestate.pipeline.harness_forms import HarnessOfForms
from idlestate.pipeline.process_arguments import with_function
from idlestate.pipeline.retain_harness import HARNESS, Input
from idlestate.pipeline.spark.spark_types import spark_schema_of
from idlestate.pipeline.two_input_harness import Pairs, TwoInputHarness
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy
from idlestate.timers.clock import FakeClock


class CoFunctionHarness(TwoInputHarness, HarnessOfForms[Pairs]):
    """One `co_process` operator, fed batch by batch.

    It emits the same rows as a query on the same batches. As in Spark, the watermark of a batch
    comes from the batches before it, and is the lower one of the two inputs.

    Args:
        left, right: the columns of the inputs and their Arrow types; timestamps are
            `pa.timestamp("us", "UTC")`.
        key, function, output, event_time, right_event_time, columns, right_columns, delay,
            right_delay, idle_after, policy, config, order, max_ahead, min_event_time, null_key,
            rejects, in_order, on_error: as for `co_process`, with columns by name.
        clock: as for `RetainHarness`.

    Raises:
        RefusedError: schemas or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """

    def __init__(
        self,
        left: pa.Schema | Mapping[str, pa.DataType],
        right: pa.Schema | Mapping[str, pa.DataType],
        *,
        key: Sequence[str] | str,
        function: KeyedCoProcessFunction,
        output: str,
        event_time: str | None = None,
        right_event_time: str | None = None,
        columns: Sequence[str] | str | None = None,
        right_columns: Sequence[str] | str | None = None,
        delay: Duration = "0s",
        right_delay: Duration | None = None,
        idle_after: Duration | Mapping[str, Duration] | None = None,
        policy: str | Policy | None = None,
        config: str | Path | None = None,
        order: Sequence[str] | str = (),
        max_ahead: Duration = "1h",
        min_event_time: str = "1970-01-02",
        null_key: str = "keep",
        rejects: bool = False,
        in_order: bool | None = None,
        on_error: str = "stop",
        clock: FakeClock | None = None,
    ) -> None:
        inputs = co_operator(
            spark_schema_of(left),
            spark_schema_of(right),
            ignores_case=True,
            key=key,
            function=function,
            output=output,
            uid=HARNESS,
            event_time=event_time,
            right_event_time=right_event_time,
            columns=columns,
            right_columns=right_columns,
            delay=delay,
            right_delay=right_delay,
            idle_after=idle_after,
            policy=policy,
            config=config,
            order=order,
            max_ahead=max_ahead,
            min_event_time=min_event_time,
            null_key=null_key,
            rejects=rejects,
            shards=1,
            in_order=in_order,
            on_error=on_error,
            place={"runs": None},
        )
        self._bind = lambda spec: with_function(spec, function, on_error)
        schemas = map(pa.schema, (left, right))
        self._begin([Input(schema, *of) for schema, of in zip(schemas, inputs, strict=True)], clock)
