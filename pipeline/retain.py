"""`retain`: the public way into the pipeline."""

import logging
import uuid
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import BooleanType, StructType, TimestampNTZType, TimestampType

from idlestate.backends.runs.keys import is_key_type
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.definition import check_renamed
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.config.aggregate_text import AggregateError, parse_call
from idlestate.config.pipeline_rules import ADDED_COLUMNS
from idlestate.errors import RefusedError
from idlestate.pipeline.arguments import Arguments, ColumnArgument, DurationArgument
from idlestate.pipeline.batch import retain_batch
from idlestate.pipeline.key_hash import key_hash
from idlestate.pipeline.operator_spec import HASH, TIME, Aside, OperatorSpec, carried_name
from idlestate.pipeline.packed_rows import packed, unpacked
from idlestate.pipeline.policy_argument import choose_policy
from idlestate.pipeline.retain_in_sidecar import retain_outside
from idlestate.pipeline.session import check_session, register
from idlestate.pipeline.spark_plan import has_watermark
from idlestate.pipeline.state_place import state_place
from idlestate.pipeline.stateful_step import OUTPUT_SCHEMA, ShardOperator
from idlestate.pipeline.types import arrow_type
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.sidecar.protocol.connection import Address

NULL_KEYS = ("keep", "reject")
_log = logging.getLogger("idlestate")


def retain(
    events: DataFrame,
    *,
    key: Sequence[ColumnArgument] | ColumnArgument,
    aggregates: Mapping[str, ColumnArgument] | Sequence[Column] | Column,
    uid: str,
    time: ColumnArgument | None = None,
    delay: DurationArgument = "0s",
    policy: str | Policy | None = None,
    config: str | Path | None = None,
    order: Sequence[ColumnArgument] | ColumnArgument = (),
    read_when: ColumnArgument | None = None,
    max_ahead: DurationArgument = "1h",
    min_event_time: str = "1970-01-02",
    malformed: ColumnArgument | None = None,
    null_key: str = "keep",
    rejects: bool = False,
    shards: int | None = None,
    backend: str = "spark",
    sidecar: str | Address | None = None,
    runs: str | None = None,
    renamed: Mapping[str, str] | None = None,
) -> DataFrame:
    """Group events by key, keep aggregates per key, and forget keys by a retention policy.

    Works on streaming and on batch DataFrames. The result is an append-only changelog: per batch
    and key at most one `update` row with the aggregates of its open life, and one `expire` row
    with the final aggregates of each life that ended.

    Args:
        events: the input. It must not carry a watermark: `delay` sets one here.
        key: one or more columns of string, binary, integer, boolean, date or timestamp type. Null
            is a key like any other, unless `null_key` rejects it.
        aggregates: result name to aggregate: count, count(col), sum, min, max, avg, first, last,
            min_by(col, by), max_by(col, by), as text or as Spark's functions of the same names;
            or a list of such columns with names, as `F.count("*").alias("n")`.
        uid: the operator's stable name; its state stands under it in the checkpoint.
        time: the event-time column, a timestamp; needed unless the policy is in processing time.
        delay: how late events may come, as `10m`, `10 minutes` or a timedelta.
        policy: a policy of `config` by name, or a `Policy`; None takes what the selectors of
            `config` give this uid, and without any the state grows without bound.
        config: the policy file.
        order: columns that order records of one key and event time.
        read_when: a boolean column that marks records which only look.
        max_ahead: event times further ahead of the batch's time are set aside.
        min_event_time: event times before this UTC date (or `2015-09-12T06:30:00Z`) are set
            aside; nothing before 1970-01-02.
        malformed: a column that is not null where the source could not parse the row.
        null_key: `keep`, or `reject` for rows in which any key column is null.
        rejects: whether late and set-aside rows come out as `reject` rows.
        shards: fixed number of shards of a new checkpoint; four per state partition by default.
        backend: where state is kept: `spark`, in the query's checkpoint, or in a sidecar on
            `rocksdb` or `heap`. There expire rows come with a later batch than the one they
            belong to.
        sidecar: the sidecar's address, `unix:PATH` or `HOST:PORT`; by default the driver starts
            one of its own in the checkpoint's folder.
        runs: where the files of state are kept, a path or URL (`s3://bucket/folder`) that driver
            and executors reach; in the checkpoint by default. Fixed by the first start.
        renamed: new to old names of aggregates: such an aggregate keeps the state that the
            checkpoint has under the old name. An entry may stay once it has taken effect.

    Returns:
        Key columns, aggregates, `change`, `first_access`, `last_access`, `expired_at`, `reason`,
        `batch_id`, and with `rejects` the column `rejected`.

    Raises:
        RefusedError: the input, session or arguments do not fit; the text says what to write.
        ConfigError: the policy file is wrong.
    """
    given = Arguments(uid, events)
    given.must_be("rejects", rejects, bool, "pass True or False")
    if shards is not None:
        given.must_be("shards", shards, int, "pass a whole number")
    if null_key not in NULL_KEYS:
        raise given.refused(f"null_key {null_key!r} is not valid; pass 'keep' or 'reject'")
    resolved = _resolve(policy, config, uid)
    texts = given.aggregates(aggregates)
    table = _bind(
        events.schema, given.columns("key", key), texts, given.columns("order", order), uid
    )
    wrong = check_renamed(texts, renamed or {})
    if wrong:
        raise given.refused(wrong)
    time, read_when, malformed = (
        None if column is None else given.column(what, column)
        for what, column in (("time", time), ("read_when", read_when), ("malformed", malformed))
    )
    is_event_time = resolved.time is TimeDomain.EVENT
    min_event_time_ms = given.instant_ms("min_event_time", min_event_time)
    _check(events, uid, time, read_when, malformed, is_event_time, shards)
    spec = OperatorSpec(
        uid=uid,
        table=table,
        policy=resolved,
        inputs=tuple(table.inputs.items()),
        read_when=read_when,
        delay_ms=given.span_ms("delay", delay),
        max_ahead_ms=given.span_ms("max_ahead", max_ahead),
        rejects=rejects,
        has_time=is_event_time or malformed is not None or null_key == "reject",
        shards=shards,
        token=uuid.uuid4().hex,
        renamed=dict(renamed or {}),
        **state_place(events.sparkSession, uid, backend, sidecar, runs),
    )
    marked = _mark(events, spec, time, malformed, null_key, min_event_time_ms)
    if not events.isStreaming:
        return retain_batch(marked, spec)
    check_session(events.sparkSession)
    register(events.sparkSession, spec)
    return _retain_stream(marked, spec) if backend == "spark" else retain_outside(marked, spec)


def _retain_stream(marked: DataFrame, spec: OperatorSpec) -> DataFrame:
    changed = (
        packed(marked, spec)
        .groupBy("shard")
        .transformWithStateInPandas(
            ShardOperator(spec),
            OUTPUT_SCHEMA,
            "Append",
            "EventTime" if spec.is_event_time else "None",
        )
    )
    return unpacked(changed, spec)


def _mark(
    events: DataFrame,
    spec: OperatorSpec,
    time: str | None,
    malformed: str | None,
    null_key: str,
    min_event_time_ms: int,
) -> DataFrame:
    """The columns the packing step needs, hash and time first."""
    names = events.columns if spec.rejects else [name for name, _ in spec.inputs]
    if spec.read_when is not None and spec.read_when not in names:
        names = [*names, spec.read_when]
    front = [key_hash(spec.table.key_names).alias(HASH)]
    back = [_col(name).alias(carried_name(name)) for name in dict.fromkeys(names)]
    if not spec.has_time:
        return events.select(*front, *back)
    code: Column = F.lit(0)
    if spec.is_event_time and time is not None:
        moment = _col(time).cast("timestamp")
        earliest = F.timestamp_millis(F.lit(min_event_time_ms))
        code = (
            F.when(moment.isNull(), F.lit(int(Aside.NULL_TIME)))
            .when(moment < earliest, F.lit(int(Aside.TOO_OLD)))
            .otherwise(F.unix_millis(moment))
        )
    if null_key == "reject":
        has_null = reduce(or_, (_col(name).isNull() for name in spec.table.key_names))
        code = F.when(has_null, F.lit(int(Aside.NULL_KEY))).otherwise(code)
    if malformed is not None:
        code = F.when(_col(malformed).isNotNull(), F.lit(int(Aside.MALFORMED))).otherwise(code)
    front.append(code.cast("long").alias(TIME))
    return events.select(*front, *back)


def _resolve(policy: str | Policy | None, config: str | Path | None, uid: str) -> Policy:
    found = choose_policy(policy, config, uid)
    if found.is_unbounded:
        _log.warning(
            "operator %s has no retention: its state grows with every new key, without bound; "
            "write a policy with, for example, `idle: {min: 30m, max: 45m}` and name it",
            uid,
        )
    return found


def _bind(
    schema: StructType,
    keys: tuple[str, ...],
    aggregates: Mapping[str, str],
    order: tuple[str, ...],
    uid: str,
) -> TableSpec:
    if not keys:
        raise RefusedError(f"operator {uid!r}: key is empty; pass at least one column")
    found = {field.name: arrow_type(field.dataType) for field in schema.fields}
    types = {name: kind for name, kind in found.items() if kind is not None}
    missing = [name for name in (*keys, *order) if name not in types]
    if missing:
        raise RefusedError(
            f"operator {uid!r}: column {', '.join(missing)} not found, or not of a simple type; "
            "available: "
            f"{', '.join(f'{f.name} {f.dataType.simpleString()}' for f in schema.fields)}"
        )
    odd = [name for name in keys if not is_key_type(types[name])]
    if odd:
        raise RefusedError(
            f"operator {uid!r}: key column {odd[0]} is of type {types[odd[0]]}; keys are strings, "
            "binaries, integers, booleans, dates or timestamps: cast it first"
        )
    if not aggregates:
        raise RefusedError(f"operator {uid!r}: no aggregates; add one, such as clicks: count")
    _refuse_taken_names((*keys, *aggregates), uid)
    for name, text in aggregates.items():
        for column in parse_call(text).columns:
            if column in found and column not in types:
                raise RefusedError(
                    f"operator {uid!r}: aggregate {name}: column {column} is of type "
                    f"{schema[column].dataType.simpleString()}; select a part or cast it first"
                )
    try:
        bound = aggregation(aggregates, types, order)
    except AggregateError as error:
        raise RefusedError(f"operator {uid!r}: {error}") from error
    return TableSpec(
        tuple((name, types[name]) for name in keys),
        bound,
        tuple((name, types[name]) for name in order),
    )


def _refuse_taken_names(names: Sequence[str], uid: str) -> None:
    taken = set(ADDED_COLUMNS)
    for name in names:
        # To Spark SQL names that differ in case alone are the same.
        if name.lower() in taken:
            raise RefusedError(
                f"operator {uid!r}: the name {name} is used twice among keys, aggregates and the "
                f"columns that idlestate adds ({', '.join(ADDED_COLUMNS)}); use another name"
            )
        taken.add(name.lower())


def _check(
    events: DataFrame,
    uid: str,
    time: str | None,
    read_when: str | None,
    malformed: str | None,
    is_event_time: bool,
    shards: int | None,
) -> None:
    schema = events.schema
    for what, name in (("time", time), ("read_when", read_when), ("malformed", malformed)):
        if name is not None and name not in schema.names:
            raise RefusedError(
                f"operator {uid!r}: {what} column {name} not found; available: "
                f"{', '.join(schema.names)}"
            )
    if is_event_time:
        if time is None:
            raise RefusedError(
                f"operator {uid!r}: its policy uses event time; pass the column: time='...'"
            )
        kind = schema[time].dataType
        if not isinstance(kind, (TimestampType, TimestampNTZType)):
            raise RefusedError(
                f"operator {uid!r}: time column {time} is of type {kind.simpleString()}; "
                "cast it to timestamp first"
            )
    if read_when is not None and not isinstance(schema[read_when].dataType, BooleanType):
        raise RefusedError(f"operator {uid!r}: read_when column {read_when} is not boolean")
    if shards is not None and shards < 1:
        raise RefusedError(f"operator {uid!r}: shards is {shards}; it must be at least 1")
    if events.isStreaming and has_watermark(events):
        raise RefusedError(
            f"operator {uid!r}: the input has a watermark already; remove withWatermark and say "
            "delay='...' to retain, which sets it where bad event times cannot reach it"
        )


def _col(name: str) -> Column:
    return F.col(f"`{name}`")
