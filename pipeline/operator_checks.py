"""Checks the arguments of an operator against its input's columns, and builds its spec."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pyarrow as pa
from pyspark.sql.types import BooleanType, StructType, TimestampNTZType, TimestampType

from idlestate.backends.runs.keys import is_key_type
from idlestate.backends.shards.emitted_rows import EmitsRows
from idlestate.backends.shards.operator_kind import OperatorKind
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.config.policy_argument import choose_policy
from idlestate.config.sql.aggregate_text import AggregateError
from idlestate.config.unbounded_growth import unbounded_warning
from idlestate.errors import RefusedError
from idlestate.pipeline.arguments import Arguments, ColumnArgument
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.spark.spark_types import arrow_type
from idlestate.retention.added_columns import ADDED_COLUMNS, used_twice
from idlestate.retention.durations import Duration, format_duration
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain
from idlestate.retention.windows import Windows

NULL_KEYS = ("keep", "reject")
_log = logging.getLogger("idlestate")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of an operator's input, from which its kind is built."""

    given: Arguments
    schema: StructType
    types: Mapping[str, pa.DataType]
    """Arrow types of the columns of simple types, by name."""
    keys: tuple[str, ...]
    order: tuple[str, ...]


class SharedArguments(TypedDict):
    """Arguments of both `retain` and `deduplicate`, without those about where state is."""

    key: Sequence[ColumnArgument] | ColumnArgument
    event_time: ColumnArgument | None
    delay: Duration
    policy: str | Policy | None
    config: str | Path | None
    order: Sequence[ColumnArgument] | ColumnArgument
    max_ahead: Duration
    min_event_time: str
    malformed: ColumnArgument | None
    null_key: str
    rejects: bool
    shards: int | None
    in_order: NotRequired[bool | None]


class OperatorArguments(SharedArguments):
    """Arguments that define an operator, without those about where its state is."""

    read_when: ColumnArgument | None
    renamed: NotRequired[Mapping[str, str] | None]
    window: NotRequired[Windows | None]
    fire_after: NotRequired[Duration | None]


@dataclass(frozen=True, slots=True)
class Marking:
    """How rows are marked before they are packed (`HASH`, `TIME`).

    Attributes:
        event_time: the event-time column; None in processing time.
        malformed: the column that is not null in malformed rows.
        null_key: `keep` or `reject`.
        min_event_time_ms: rows before it are rejected.
    """

    event_time: str | None
    malformed: str | None
    null_key: str
    min_event_time_ms: int


def checked_operator(
    given: Arguments,
    schema: StructType,
    kind_of: Callable[[Columns], OperatorKind],
    *,
    key: Sequence[ColumnArgument] | ColumnArgument,
    uid: str,
    event_time: ColumnArgument | None,
    delay: Duration,
    policy: str | Policy | None,
    config: str | Path | None,
    order: Sequence[ColumnArgument] | ColumnArgument,
    max_ahead: Duration,
    min_event_time: str,
    malformed: ColumnArgument | None,
    null_key: str,
    rejects: bool,
    shards: int | None,
    read_when: ColumnArgument | None,
    renamed: Mapping[str, str] | None = None,
    window: Windows | None = None,
    fire_after: Duration | None = None,
    in_order: bool | None = None,
    is_bounded: bool = False,
    place: Mapping[str, Any],
) -> tuple[OperatorSpec, Marking]:
    """The spec of an operator on an input with this schema, and how its rows are marked.

    Arguments as for `retain`; `place` contains the fields of the spec about the place of state, and
    `is_bounded` says that state is bounded even without a policy.

    Raises:
        RefusedError: schema or arguments do not fit; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """
    given.must_be("rejects", rejects, bool, "pass True or False")
    if shards is not None:
        given.must_be("shards", shards, int, "pass a whole number")
    if null_key not in NULL_KEYS:
        raise given.refused(f"null_key {null_key!r} is not valid; pass 'keep' or 'reject'")
    if window is not None:
        _check_window(given, window, policy, config, read_when)
    if window is None:
        resolved = _resolve(policy, config, uid, warns=not is_bounded)
    else:
        resolved = window.policy
    delay_ms = given.span_ms("delay", delay)
    fire_after_ms = _fire_after_ms(given, window, delay_ms, fire_after)
    if in_order is not None:
        given.must_be("in_order", in_order, bool, "pass True or False")
    holds = in_order if in_order is not None else window is not None and window.is_session
    table = _table(given, schema, key, order, kind_of, window, fire_after_ms, in_order=holds)
    if holds:
        _check_in_order(given, table, resolved)
    event_time, read_when, malformed = (
        None if column is None else given.column(what, column)
        for what, column in (
            ("event_time", event_time),
            ("read_when", read_when),
            ("malformed", malformed),
        )
    )
    is_event_time = resolved.time is TimeDomain.EVENT
    min_event_time_ms = given.instant_ms("min_event_time", min_event_time)
    check_columns(schema, uid, event_time, read_when, malformed, is_event_time=is_event_time)
    if shards is not None and shards < 1:
        raise RefusedError(f"operator {uid!r}: shards is {shards}; it must be at least 1")
    spec = OperatorSpec(
        uid=uid,
        table=table,
        policy=resolved,
        inputs=tuple(table.inputs.items()),
        read_when=read_when,
        delay_ms=delay_ms,
        max_ahead_ms=given.span_ms("max_ahead", max_ahead),
        rejects=rejects,
        has_time=is_event_time or malformed is not None or null_key == "reject",
        shards=shards,
        token=uuid.uuid4().hex,
        renamed=dict(renamed or {}),
        **place,
    )
    marked_time = event_time if is_event_time else None
    return spec, Marking(marked_time, malformed, null_key, min_event_time_ms)


def _check_window(
    given: Arguments, window: object, policy: object, config: object, read_when: object
) -> None:
    given.must_be("window", window, Windows, "pass a window such as tumbling('10m')")
    for what, value in (("policy", policy), ("config", config)):
        if value is not None:
            raise given.refused(
                f"{what} cannot be combined with window: a window of {window} ends by itself; "
                f"remove {what}",
                about="window",
            )
    if read_when is not None:
        raise given.refused(
            "read_when cannot be combined with window: every record of a window is a write; "
            "remove read_when, and filter such records out",
            about="window",
        )


def _fire_after_ms(
    given: Arguments, window: Windows | None, delay_ms: int, fire_after: Duration | None
) -> int | None:
    """How far past its end the newest record is when a window is first shown; None: at once.
    `FOREVER_MS` if windows are final by then, so only final results are shown. This also holds
    behind another operator, where the watermark lags the newest record by more than `delay`.
    """
    if fire_after is None:
        return None
    if window is None:
        raise given.refused("fire_after applies to windows; remove it, or add window=...")
    found_ms = given.span_ms("fire_after", fire_after)
    if found_ms > delay_ms:
        raise given.refused(
            "fire_after is longer than delay, after which windows are final; use at most "
            f"{format_duration(delay_ms)}"
        )
    return found_ms if found_ms < delay_ms else FOREVER_MS


def _check_in_order(given: Arguments, table: TableSpec, policy: Policy) -> None:
    what, fix = "in_order=True", "remove in_order"
    if table.window is not None:
        what, fix = f"{table.window} counts rows in order, which", "pass in_order=False"
    if policy.time is TimeDomain.PROCESSING:
        raise given.refused(
            "in_order=True needs event time, but the policy uses processing time, in which rows "
            "count in order of arrival; remove in_order, or use a policy with time: event"
        )
    if table.fixed_window is not None:
        raise given.refused(
            f"in_order cannot be combined with window: final results of {table.window} do not "
            "depend on the order of rows; remove in_order"
        )
    if table.fire_after_ms is not None:
        raise given.refused(
            f"{what} cannot be combined with fire_after: early results do not include waiting "
            f"rows; {fix}, or remove fire_after"
        )


def _resolve(
    policy: str | Policy | None, config: str | Path | None, uid: str, *, warns: bool
) -> Policy:
    found = choose_policy(policy, config, uid)
    if found.is_unbounded and warns:
        _log.warning("%s", unbounded_warning(uid))
    return found


def _table(
    given: Arguments,
    schema: StructType,
    key: object,
    order: object,
    kind_of: Callable[[Columns], OperatorKind],
    window: Windows | None,
    fire_after_ms: int | None,
    *,
    in_order: bool,
) -> TableSpec:
    keys, ordering = given.columns("key", key), given.columns("order", order)
    if not keys:
        raise given.refused("key is empty; pass at least one column")
    found = {field.name: arrow_type(field.dataType) for field in schema.fields}
    types = {name: kind for name, kind in found.items() if kind is not None}
    missing = [name for name in (*keys, *ordering) if name not in types]
    if missing:
        raise given.refused(
            f"column {', '.join(missing)} not found, or not of a simple type; available: "
            f"{', '.join(f'{f.name} {f.dataType.simpleString()}' for f in schema.fields)}",
            about=missing[0],
        )
    odd = [name for name in keys if not is_key_type(types[name])]
    if odd:
        raise given.refused(
            f"key column {odd[0]} is of type {types[odd[0]]}; keys are strings, binaries, "
            "integers, booleans, dates or timestamps: cast it first",
            about=odd[0],
        )
    try:
        kind = kind_of(Columns(given, schema, types, keys, ordering))
    except AggregateError as error:
        raise given.refused(str(error), error.about) from error
    table = TableSpec.of_windows(
        tuple((name, types[name]) for name in keys),
        kind,
        tuple((name, types[name]) for name in ordering),
        window,
        fire_after_ms,
        in_order=in_order,
    )
    emitted = kind.emitted if isinstance(kind, EmitsRows) else kind.results
    shown = (*table.shown_keys, *emitted)
    _refuse_taken_names([name for name, _ in shown], given)
    return table


def _refuse_taken_names(names: Sequence[str], given: Arguments) -> None:
    if (name := used_twice(names)) is not None:
        raise given.refused(
            f"the name {name} is used twice among keys, aggregates and the "
            f"columns that idlestate adds ({', '.join(ADDED_COLUMNS)}); use another name",
            about=name,
        )


def check_columns(
    schema: StructType,
    uid: str,
    event_time: str | None = None,
    read_when: str | None = None,
    malformed: str | None = None,
    *,
    is_event_time: bool = True,
) -> None:
    """Refuse columns with properties of rows that are missing or have the wrong type.

    Raises:
        RefusedError: a column is refused; the text says what to pass.
    """
    for what, name in (
        ("event_time", event_time),
        ("read_when", read_when),
        ("malformed", malformed),
    ):
        if name is not None and name not in schema.names:
            raise RefusedError(
                f"operator {uid!r}: {what} column {name} not found; available: "
                f"{', '.join(schema.names)}",
                about=name,
            )
    if is_event_time:
        if event_time is None:
            raise RefusedError(
                f"operator {uid!r}: its policy uses event time; pass the column: event_time='...'"
            )
        kind = schema[event_time].dataType
        if not isinstance(kind, (TimestampType, TimestampNTZType)):
            raise RefusedError(
                f"operator {uid!r}: time column {event_time} is of type {kind.simpleString()}; "
                "cast it to timestamp first",
                about=event_time,
            )
    if read_when is not None and not isinstance(schema[read_when].dataType, BooleanType):
        raise RefusedError(
            f"operator {uid!r}: read_when column {read_when} is not boolean", about=read_when
        )
