"""`join`: pairs of rows of two streams with equal keys, by an interval or by retention."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from idlestate.backends.shards.operator_steps import JoinStep
from idlestate.backends.shards.state_rows_of_joins import JOIN_SIDE
from idlestate.backends.shards.stream_join import HOW, Between, StreamJoin, stream_join
from idlestate.config.policy_argument import choose_policy
from idlestate.config.unbounded_growth import unbounded_warning
from idlestate.pipeline.arguments import Arguments, ColumnArgument
from idlestate.pipeline.operator_checks import Columns, Marking, check_columns, checked_operator
from idlestate.pipeline.operator_dataframe import changelog
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.policy_plans import refuse_counted_reads
from idlestate.pipeline.spark.argument_type import check_dataframes
from idlestate.pipeline.state_place import state_place
from idlestate.pipeline.two_inputs import (
    LEFT,
    RIGHT,
    OneOfTwo,
    check_two_inputs,
    check_types,
    operators_of_inputs,
    without_malformed,
)
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.sidecar.protocol.connection import Address

_log = logging.getLogger("idlestate")


def join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: Sequence[ColumnArgument] | ColumnArgument,
    uid: str,
    event_time: ColumnArgument,
    right_event_time: ColumnArgument | None = None,
    how: str = "inner",
    between: tuple[Duration, Duration] | None = None,
    policy: str | Policy | None = None,
    right_policy: str | Policy | None = None,
    config: str | Path | None = None,
    delay: Duration = "0s",
    right_delay: Duration | None = None,
    idle_after: Duration | Mapping[str, Duration] | None = None,
    max_ahead: Duration = "1h",
    min_event_time: str = "1970-01-02",
    malformed: ColumnArgument | None = None,
    null_key: str = "keep",
    rejects: bool = False,
    shards: int | None = None,
    backend: str = "spark",
    sidecar: str | Address | None = None,
    runs: str | None = None,
) -> DataFrame:
    """Join rows of two inputs that have equal keys.

    With `between`, this is an interval join: rows match if their event times are within an
    interval. Without it, this is a regular join: rows match as long as both are kept by their
    policies. Both inputs are streams, or both are batch DataFrames. A pair is emitted once, in the
    batch that reads its second row. A row without a match is emitted once, when no match can arrive
    any more. The result does not depend on how the inputs are divided into batches or on which of
    them is ahead, as long as no row is late. A late row is dropped and matches nothing.

    Args:
        left, right: the rows to join, with columns of simple types and without a watermark. Columns
            other than the keys have different names, unless `how` is `semi` or `anti`.
        on: one or more key columns, which both inputs have, of the same types. As in SQL, a row
            with a null in its key matches nothing: `inner` drops it; `left` emits it at once if it
            is a left row.
        uid: the operator's stable name, which identifies its state in the checkpoint.
        event_time: the event-time column of the left input, a timestamp.
        right_event_time: the event-time column of the right input; default: the same name.
        how: `inner`; `left`, `right` or `full` to also emit rows of that input or of both without a
            match, with nulls; `semi` or `anti` to emit only left rows, with or without a
            match.
        between: the smallest and the largest time from a left row to a matching right row, both
            inclusive, in whole milliseconds. With `("-30m", "1h")`, right rows from 30 minutes
            before to one hour after the left row match. None: a regular join.
        policy: the name of a policy in `config`, or a `Policy`: how long left rows are kept. Each
            row is one write, at its time; matches do not extend its life. None uses the policy that
            the selectors of `config` assign to this uid. Without a policy, an interval join keeps
            rows for as long as they may match, and a regular join keeps them forever.
        right_policy: how long right rows are kept; default: `policy`.
        config: the policy file.
        delay: how late left rows may arrive: text such as `10m` or `1h30m`, or a timedelta.
        right_delay: how late right rows may arrive; default: `delay`.
        idle_after: how long an input without rows holds the watermark back: one duration for both
            inputs, or durations by name, as in `{"right": "15m"}`. Rows that it sends later, behind
            the watermark, are late. Default: forever.
        rejects: whether to emit late and rejected rows of both inputs, with nulls in the columns
            of the join, and the columns `reason`, `input` and `rejected`.
        malformed: a column that is not null in rows that the source could not parse. One or both
            inputs may have it. It is not emitted.
        max_ahead, min_event_time, null_key, shards: as for `retain`, for both inputs.
        backend, sidecar, runs: as for `retain`.

    Returns:
        Key columns, the other columns of the left input, those of the right input (not with `semi`
        or `anti`), and `batch_id`; with `rejects` three more. The output is append-only.

    Raises:
        RefusedError: inputs, session or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """
    check_dataframes(left=left, right=right)
    spark = left.sparkSession
    ignores_case = spark.conf.get("spark.sql.caseSensitive") != "true"
    check_two_inputs(Arguments(uid, left.columns, ignores_case=ignores_case), uid, left, right)
    operators = join_operator(
        left.schema,
        right.schema,
        ignores_case=ignores_case,
        on=on,
        uid=uid,
        event_time=event_time,
        right_event_time=right_event_time,
        how=how,
        between=between,
        policy=policy,
        right_policy=right_policy,
        config=config,
        delay=delay,
        right_delay=right_delay,
        idle_after=idle_after,
        max_ahead=max_ahead,
        min_event_time=min_event_time,
        malformed=malformed,
        null_key=null_key,
        rejects=rejects,
        shards=shards,
        place=state_place(spark, uid, backend, sidecar, runs),
    )
    return changelog([left, right], operators)


def join_operator(
    left: StructType,
    right: StructType,
    *,
    ignores_case: bool,
    on: Sequence[ColumnArgument] | ColumnArgument,
    uid: str,
    event_time: ColumnArgument,
    right_event_time: ColumnArgument | None,
    how: str,
    between: tuple[Duration, Duration] | None,
    policy: str | Policy | None,
    right_policy: str | Policy | None,
    config: str | Path | None,
    delay: Duration,
    right_delay: Duration | None,
    idle_after: Duration | Mapping[str, Duration] | None,
    malformed: ColumnArgument | None = None,
    **arguments: Any,
) -> list[tuple[OperatorSpec, Marking]]:
    """The operator for each input, which marks and packs its rows; the first represents both.

    Arguments as in `join` and `checked_operator`, with the schemas of the inputs.

    Raises:
        RefusedError: schemas or arguments do not fit; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """
    given = Arguments(uid, left.names, ignores_case=ignores_case)
    (left, bad), (right, bad_right) = without_malformed(given, malformed, left, right)
    given_right = given.among(right.names)
    if how not in HOW:
        raise given.refused(f"how {how!r} is not valid; pass one of {', '.join(HOW)}")
    interval = None if between is None else _interval(given, between)
    keys = given.columns("on", on)
    time = given_right.column("right_event_time", right_event_time or event_time)
    check_columns(right, uid, event_time=time)
    emits_pairs = how not in ("semi", "anti")
    of_left = tuple(name for name in left.names if name not in keys)
    of_right = tuple(name for name in right.names if name not in keys) if emits_pairs else ()
    if JOIN_SIDE in (*left.names, *of_right):
        raise given.refused(
            f"column {JOIN_SIDE} is added by read_state; rename the one you have", about=JOIN_SIDE
        )
    schema = _joined_schema(given, left, right, keys, of_right)

    def kind_of(found: Columns) -> StreamJoin:
        check_types(found, (*of_left, *of_right))
        return stream_join(how, interval, of_left, of_right, found.types)

    spec, marking = checked_operator(
        given.among(schema.names),
        schema,
        kind_of,
        key=keys,
        uid=uid,
        event_time=event_time,
        delay=delay,
        policy=policy,
        config=config,
        order=(),
        read_when=None,
        malformed=None,
        is_bounded=interval is not None,
        **arguments,
    )
    right_kept = spec.policy
    if right_policy is not None:
        right_kept = choose_policy(right_policy, config, uid)
        if interval is None and right_kept.is_unbounded and not spec.policy.is_unbounded:
            _log.warning("%s", unbounded_warning(f"{uid} (right rows)"))
    for each in (spec.policy, right_kept):
        if each.time is TimeDomain.PROCESSING:
            raise given.refused("a join needs event time; use a policy with time: event")
        refuse_counted_reads(uid, each)
    spec = replace(spec, operator_step=JoinStep(), right_policy=right_kept)
    behind = delay if right_delay is None else right_delay
    inputs = [
        OneOfTwo(LEFT, (*keys, *of_left), delay, marking.event_time, bad),
        OneOfTwo(RIGHT, (*keys, *of_right), behind, time, bad_right, all_read=True),
    ]
    return operators_of_inputs(given, spec, marking, inputs, idle_after)


def _interval(given: Arguments, between: object) -> Between:
    fix = "pass two durations, as in between=('-30m', '1h')"
    given.must_be("between", between, (tuple, list), fix)
    if not isinstance(between, tuple | list) or len(between) != 2:
        raise given.refused(f"between {between!r} is not valid; {fix}")
    low_ms, high_ms = (_signed_ms(given, each) for each in between)
    if low_ms > high_ms:
        raise given.refused(
            f"between: {between[0]} is after {between[1]}, so that nothing matches; swap them"
        )
    return low_ms, high_ms


def _signed_ms(given: Arguments, value: object) -> int:
    if isinstance(value, str) and value.startswith("-"):
        return -given.span_ms("between", value[1:])
    if isinstance(value, timedelta) and value < timedelta():
        return -given.span_ms("between", -value)
    return given.span_ms("between", value)


def _joined_schema(
    given: Arguments,
    left: StructType,
    right: StructType,
    keys: Sequence[str],
    of_right: Sequence[str],
) -> StructType:
    for name in keys:
        if name not in right.names:
            raise given.refused(
                f"on: column {name} of the right input not found; available: "
                f"{', '.join(right.names)}",
                about=name,
            )
        if name in left.names and left[name].dataType != right[name].dataType:
            raise given.refused(
                f"on: {name} is of type {left[name].dataType.simpleString()} in the left input and "
                f"{right[name].dataType.simpleString()} in the right one; cast one of them",
                about=name,
            )
    twice = next((name for name in of_right if name in left.names), None)
    if twice is not None:
        raise given.refused(
            f"both inputs have a column {twice}; drop one, or rename it before: "
            f"right.withColumnRenamed({twice!r}, 'right_{twice}')",
            about=twice,
        )
    return StructType([*left.fields, *(right[name] for name in of_right)])
