"""`co_process`: a user's function on the records of two streams, with state and timers per key."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ByteType, StructField, StructType

from idlestate.backends.shards.function_state import FunctionState
from idlestate.backends.shards.operator_kind import INPUT_NUMBER
from idlestate.config.policy_argument import choose_policy
from idlestate.functions.co_function import KeyedCoProcessFunction
from idlestate.pipeline.arguments import Arguments, ColumnArgument
from idlestate.pipeline.operator_checks import Columns, Marking, check_columns, checked_operator
from idlestate.pipeline.operator_dataframe import changelog
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.process_arguments import co_function_state, given_columns, with_function
from idlestate.pipeline.spark.argument_type import check_dataframes
from idlestate.pipeline.spark.spark_types import arrow_type
from idlestate.pipeline.state_place import state_place
from idlestate.pipeline.two_inputs import (
    LEFT,
    RIGHT,
    OneOfTwo,
    check_two_inputs,
    operators_of_inputs,
    without_malformed,
)
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.sidecar.protocol.connection import Address


def co_process(
    left: DataFrame,
    right: DataFrame,
    *,
    key: Sequence[ColumnArgument] | ColumnArgument,
    function: KeyedCoProcessFunction,
    output: str,
    uid: str,
    event_time: ColumnArgument | None = None,
    right_event_time: ColumnArgument | None = None,
    columns: Sequence[ColumnArgument] | ColumnArgument | None = None,
    right_columns: Sequence[ColumnArgument] | ColumnArgument | None = None,
    delay: Duration = "0s",
    right_delay: Duration | None = None,
    idle_after: Duration | Mapping[str, Duration] | None = None,
    policy: str | Policy | None = None,
    config: str | Path | None = None,
    order: Sequence[ColumnArgument] | ColumnArgument = (),
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
    """Call a function with the records of each key of two inputs, with state and timers.

    Both inputs are streams, or both are batch DataFrames. The result contains the rows that the
    function yields. Records of a key are processed in order of event time; at the same time left
    records come first, then the `order` columns and the values decide. A record of either input is
    a write of its key.

    Args:
        left, right: the inputs, without a watermark. Columns that both have and the function
            receives must have the same types.
        key: one or more key columns, which both inputs have.
        function: an object of a class derived from `KeyedCoProcessFunction`. Spark sends it to its
            tasks, so it must be picklable.
        output: as for `process`.
        uid: the operator's stable name, which identifies its state in the checkpoint.
        event_time: the event-time column of the left input, a timestamp; required unless the policy
            uses processing time.
        right_event_time: the event-time column of the right input; default: the same name.
        columns, right_columns: the columns of the rows that `process_element1` and
            `process_element2` receive; default: all of simple types.
        delay: how late left records may arrive: text such as `10m` or `1h30m`, or a timedelta.
        right_delay: how late right records may arrive; default: `delay`.
        idle_after: how long an input without rows holds the watermark back: one duration for both
            inputs, or durations by name, as in `{"right": "15m"}`. Rows that it sends later, behind
            the watermark, are late. Default: forever.
        order: columns that order records of the same key, event time and input.
        policy, config: as for `retain`.
        malformed: a column that is not null in rows that the source could not parse. One or both
            inputs may have it. The function does not get it.
        max_ahead, min_event_time, null_key: as for `retain`, for both inputs.
        rejects: whether to emit late and rejected rows of both inputs, with null in the columns of
            `output`, and the columns `reason`, `batch_id`, `input` and `rejected`.
        shards, backend, sidecar, runs, renamed, on_error: as for `process`.
        in_order: whether rows wait until the watermark reaches them; by default they do in event
            time. Without it, results depend on how the two inputs are divided into batches.

    Returns:
        The columns of `output`, and with `rejects` four more.

    Raises:
        RefusedError: inputs, session or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """
    check_dataframes(left=left, right=right)
    spark = left.sparkSession
    ignores_case = spark.conf.get("spark.sql.caseSensitive") != "true"
    given = Arguments(uid, left.columns, ignores_case=ignores_case)
    check_two_inputs(given, uid, left, right)
    operators = co_operator(
        left.schema,
        right.schema,
        ignores_case=ignores_case,
        key=key,
        function=function,
        output=output,
        uid=uid,
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
        malformed=malformed,
        null_key=null_key,
        rejects=rejects,
        shards=shards,
        renamed=renamed,
        in_order=in_order,
        on_error=on_error,
        place=state_place(spark, uid, backend, sidecar, runs),
    )
    return changelog([left, right], operators)


def co_operator(
    left: StructType,
    right: StructType,
    *,
    ignores_case: bool,
    key: Sequence[ColumnArgument] | ColumnArgument,
    function: KeyedCoProcessFunction,
    output: str,
    uid: str,
    event_time: ColumnArgument | None,
    right_event_time: ColumnArgument | None,
    columns: Sequence[ColumnArgument] | ColumnArgument | None,
    right_columns: Sequence[ColumnArgument] | ColumnArgument | None,
    delay: Duration,
    right_delay: Duration | None,
    idle_after: Duration | Mapping[str, Duration] | None,
    policy: str | Policy | None,
    config: str | Path | None,
    order: Sequence[ColumnArgument] | ColumnArgument,
    rejects: bool,
    in_order: bool | None,
    on_error: str,
    malformed: ColumnArgument | None = None,
    **arguments: Any,
) -> list[tuple[OperatorSpec, Marking]]:
    """The operator for each input, which marks and packs its rows; the first represents both.

    Arguments as in `co_process` and `checked_operator`, with the schemas of the inputs.

    Raises:
        RefusedError: schemas or arguments do not fit; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """
    given = Arguments(uid, left.names, ignores_case=ignores_case)
    (left, bad), (right, bad_right) = without_malformed(given, malformed, left, right)
    given_right = given.among(right.names)
    keys = given.columns("key", key)
    resolved = choose_policy(policy, config, uid)
    is_event_time = resolved.time is TimeDomain.EVENT
    time = right_event_time or event_time
    named_time = None if time is None else given_right.column("right_event_time", time)
    check_columns(right, uid, event_time=named_time, is_event_time=is_event_time)
    used = [
        given_columns(given, "columns", columns, left.names, _simple(left)),
        given_columns(given_right, "right_columns", right_columns, right.names, _simple(right)),
    ]
    schema = _both(given, left, right, {*keys, *used[0], *used[1]}, keys)

    def kind_of(found: Columns) -> FunctionState:
        return co_function_state(found, function, output, used, rejects=rejects)

    # By name in the schema of both inputs, so that columns of the right input can be passed too.
    given_both = given.among(schema.names)
    ordering = given_both.columns("order", order)
    spec, marking = checked_operator(
        given_both,
        schema,
        kind_of,
        key=keys,
        uid=uid,
        event_time=event_time,
        delay=delay,
        policy=policy,
        config=config,
        order=(INPUT_NUMBER, *ordering),
        rejects=rejects,
        read_when=None,
        malformed=None,
        in_order=is_event_time if in_order is None else in_order,
        **arguments,
    )
    spec = with_function(spec, function, on_error)
    packed = [
        tuple(dict.fromkeys((*keys, *own, *_of(ordering, schema_of))))
        for own, schema_of in zip(used, (left, right), strict=True)
    ]
    behind = delay if right_delay is None else right_delay
    marked_time = named_time if is_event_time else None
    inputs = [
        OneOfTwo(LEFT, packed[0], delay, marking.event_time, bad),
        OneOfTwo(RIGHT, packed[1], behind, marked_time, bad_right),
    ]
    return operators_of_inputs(given, spec, marking, inputs, idle_after)


def _simple(schema: StructType) -> list[str]:
    return [field.name for field in schema.fields if arrow_type(field.dataType) is not None]


def _of(names: Sequence[str], schema: StructType) -> list[str]:
    return [name for name in names if name in schema.names]


def _both(
    given: Arguments,
    left: StructType,
    right: StructType,
    used: set[str],
    keys: Sequence[str],
) -> StructType:
    """The columns of both inputs, and the number of the input."""
    if INPUT_NUMBER in {*left.names, *right.names}:
        raise given.refused(f"column {INPUT_NUMBER} is added to the rows of both inputs; rename it")
    missing = [name for name in keys if name not in right.names]
    if missing:
        raise given.refused(
            f"key column {missing[0]} of the right input not found; available: "
            f"{', '.join(right.names)}"
        )
    for name in sorted(used & {*left.names} & {*right.names}):
        kinds = left[name].dataType.simpleString(), right[name].dataType.simpleString()
        if kinds[0] != kinds[1]:
            raise given.refused(
                f"column {name} is of type {kinds[0]} in the left input and {kinds[1]} in the "
                "right one; cast or rename one of them"
            )
    more = [field for field in right.fields if field.name not in left.names]
    return StructType([*left.fields, *more, StructField(INPUT_NUMBER, ByteType())])
