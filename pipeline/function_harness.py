"""`process` batch by batch in the calling process, for tests of functions."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from idlestate.backends.shards.function_state import FunctionState
from idlestate.config.policy_argument import choose_policy
from idlestate.functions.function import KeyedProcessFunction
from idlestate.pipeline.harness_forms import HarnessOfForms
from idlestate.pipeline.operator_checks import Columns
from idlestate.pipeline.process_arguments import function_state, order_of, with_function
from idlestate.pipeline.retain_harness import HARNESS, Rows
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy
from idlestate.timers.clock import FakeClock


class FunctionHarness(HarnessOfForms[Rows]):
    """One `process` operator, fed batch by batch.

    It emits the same rows as a query on the same batches. As in Spark, the watermark of a batch
    comes from the batches before it. `lives()` has a column per state, and `timers`.

    Args:
        schema: the input's columns and their Arrow types; timestamps are
            `pa.timestamp("us", "UTC")`.
        key, function, output, event_time, columns, delay, policy, config, order, read_when,
            max_ahead, min_event_time, malformed, null_key, rejects, in_order, on_error: as for
            `process`, with columns by name.
        clock: as for `RetainHarness`.

    Raises:
        RefusedError: schema or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """

    def __init__(
        self,
        schema: pa.Schema | Mapping[str, pa.DataType],
        *,
        key: Sequence[str] | str,
        function: KeyedProcessFunction,
        output: str,
        event_time: str | None = None,
        columns: Sequence[str] | str | None = None,
        delay: Duration = "0s",
        policy: str | Policy | None = None,
        config: str | Path | None = None,
        order: Sequence[str] | str = (),
        read_when: str | None = None,
        max_ahead: Duration = "1h",
        min_event_time: str = "1970-01-02",
        malformed: str | None = None,
        null_key: str = "keep",
        rejects: bool = False,
        in_order: bool | None = None,
        on_error: str = "stop",
        clock: FakeClock | None = None,
    ) -> None:
        def kind_of(found: Columns) -> FunctionState:
            return function_state(found, function, output, columns, rejects=rejects)

        super().__init__(
            schema,
            kind_of,
            clock,
            lambda spec: with_function(spec, function, on_error),
            key=key,
            event_time=event_time,
            delay=delay,
            policy=policy,
            config=config,
            order=order,
            read_when=read_when,
            max_ahead=max_ahead,
            min_event_time=min_event_time,
            malformed=malformed,
            null_key=null_key,
            rejects=rejects,
            in_order=order_of(function, choose_policy(policy, config, HARNESS), in_order),
        )
