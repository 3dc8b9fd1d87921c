"""`process`: a user's function on the records of each key, with state and timers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from idlestate.backends.shards.function_state import FunctionState
from idlestate.config.policy_argument import choose_policy
from idlestate.functions.function import KeyedProcessFunction
from idlestate.pipeline.arguments import ColumnArgument
from idlestate.pipeline.operator_checks import Columns
from idlestate.pipeline.operator_dataframe import operator_dataframe
from idlestate.pipeline.process_arguments import function_state, order_of, with_function
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy
from idlestate.sidecar.protocol.connection import Address


def process(
    events: DataFrame,
    *,
    key: Sequence[ColumnArgument] | ColumnArgument,
    function: KeyedProcessFunction,
    output: str,
    uid: str,
    event_time: ColumnArgument | None = None,
    columns: Sequence[ColumnArgument] | ColumnArgument | None = None,
    delay: Duration = "0s",
    policy: str | Policy | None = None,
    config: str | Path | None = None,
    order: Sequence[ColumnArgument] | ColumnArgument = (),
    read_when: ColumnArgument | None = None,
    max_ahead: Duration = "1h",
    min_event_time: str = "1970-01-02",
    malformed: ColumnArgument | None = None,
    null_key: str = "keep",
    rejects: bool = False,
    shards: int | None = None,
    backend: str = "spark",
    sidecar: str | Address | None = None,
    runs: str | None = None,
    renamed: Mapping[str, str] | None = None,
    in_order: bool | None = None,
    on_error: str = "stop",
) -> DataFrame:
    """Call a function with the records of each key, in order, with state and timers.

    Works on streaming and batch DataFrames. The result contains the rows that the function yields.
    Records of a key are processed in order of event time, then of the `order` columns, then of
    their values.

    Args:
        events: the input. It must not have a watermark: `delay` sets one.
        key: as for `retain`.
        function: an object of a class derived from `KeyedProcessFunction`. Spark sends it to its
            tasks, so it must be picklable.
        output: names and types of the columns that the function yields, such as
            `id string, n bigint`.
        uid: the operator's stable name, which identifies its state in the checkpoint.
        event_time: the event-time column, a timestamp; required unless the policy uses processing
            time.
        columns: the columns of the rows that the function receives; default: all of simple types.
            Other columns are not sent to the shards.
        delay, policy, config, order: as for `retain`.
        read_when: a boolean column that marks read-only records: the function must not change
            states or timers for them.
        max_ahead, min_event_time, malformed, null_key: as for `retain`.
        rejects: whether to emit late and rejected rows, with null in the columns of `output`, and
            the columns `reason`, `batch_id` and `rejected`.
        shards, backend, sidecar, runs: as for `retain`. With a sidecar, the function still runs in
            Spark's tasks, and keys expire in the query's batches only.
        renamed: new to old names of states.
        in_order: as for `retain`; by default it is on in event time for functions with `on_timer`.
        on_error: what to do when the function fails. `stop` stops the query. `reject` rejects the
            record and needs `rejects`: the call is undone, with its changes to states and timers
            and the rows that it yielded, and a reject row has the reason `function_error`. If
            `on_timer` fails, the timer is removed; if `on_expire` fails, the life still ends.

    Returns:
        The columns of `output`, and with `rejects` three more.

    Raises:
        RefusedError: the input, session or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """

    def kind_of(found: Columns) -> FunctionState:
        return function_state(found, function, output, columns, rejects=rejects)

    return operator_dataframe(
        events,
        kind_of,
        bind=lambda spec: with_function(spec, function, on_error),
        key=key,
        uid=uid,
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
        shards=shards,
        backend=backend,
        sidecar=sidecar,
        runs=runs,
        renamed=renamed,
        in_order=order_of(function, choose_policy(policy, config, uid), in_order),
    )
