"""`over`: each row with aggregates of its key's rows up to its time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pyspark.sql import Column, DataFrame

from idlestate.backends.shards.bounded_over import over_kind
from idlestate.backends.shards.frames import WHOLE_LIFE, Frame, FrameUnit
from idlestate.backends.shards.own_accumulator import OwnAccumulator
from idlestate.backends.shards.running_aggregates import Over
from idlestate.config.sql.aggregate_text import MOST_ROWS
from idlestate.pipeline.arguments import Arguments, ColumnArgument
from idlestate.pipeline.operator_checks import Columns
from idlestate.pipeline.operator_dataframe import operator_dataframe
from idlestate.pipeline.retain import aggregation_of
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy
from idlestate.sidecar.protocol.connection import Address


def over(
    events: DataFrame,
    *,
    key: Sequence[ColumnArgument] | ColumnArgument,
    columns: Mapping[str, ColumnArgument] | Sequence[Column] | Column,
    uid: str,
    event_time: ColumnArgument,
    delay: Duration = "0s",
    policy: str | Policy | None = None,
    config: str | Path | None = None,
    rows: int | Literal["unbounded"] | None = None,
    range: Duration | None = None,  # noqa: A002 - its name in SQL
    order: Sequence[ColumnArgument] | ColumnArgument = (),
    max_ahead: Duration = "1h",
    min_event_time: str = "1970-01-02",
    malformed: ColumnArgument | None = None,
    null_key: str = "keep",
    shards: int | None = None,
    backend: str = "spark",
    sidecar: str | Address | None = None,
    runs: str | None = None,
) -> DataFrame:
    """Emit each row with aggregates of its key's rows so far.

    This is `OVER (PARTITION BY key ORDER BY event_time)` of SQL, for streams and batch DataFrames.
    Rows with the same event time and equal `order` columns count together. `rows` and `range` limit
    the frame. Every row is a write, and the frame ends with the key's life, by the policy. Rows
    wait until the watermark reaches them, and then count in order of event time, so the result does
    not depend on how they arrive.

    Args:
        events: the input, with columns of simple types and without a watermark.
        key: one or more columns, as for `retain`.
        columns: result name to aggregate, like `aggregates` of `retain`.
        uid: the operator's stable name, which identifies its state in the checkpoint.
        event_time: the event-time column, a timestamp.
        delay, policy, config, max_ahead, min_event_time: as for `retain`.
        rows: count only this many rows, including the row itself, like `ROWS BETWEEN rows - 1
            PRECEDING AND CURRENT ROW`; 1 to 100,000. Rows with the same time are ordered by their
            `order` columns, then by all their values. `unbounded`: all rows of the life up to the
            row, in the same order.
        range: count only rows that are at most this long before the row, like `RANGE BETWEEN
            INTERVAL ... PRECEDING AND CURRENT ROW`: text such as `10m` or `1h30m`, or a timedelta.
            Rows with the same time count together, regardless of their `order` columns.
        order: columns that order rows of the same key and event time.
        malformed: as for `retain`; this column is not emitted.
        null_key, shards, backend, sidecar, runs: as for `retain`.

    Returns:
        Key columns, the other columns of the input, the aggregates, and `batch_id`. There is one
        row per row of the input that is neither late nor rejected, in the batch that processes it.

    Raises:
        RefusedError: the input, session or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """

    def kind_of(found: Columns) -> Over:
        return over_of(found, columns, rows, range, malformed)

    return operator_dataframe(
        events,
        kind_of,
        key=key,
        uid=uid,
        event_time=event_time,
        delay=delay,
        policy=policy,
        config=config,
        order=order,
        read_when=None,
        max_ahead=max_ahead,
        min_event_time=min_event_time,
        malformed=malformed,
        null_key=null_key,
        rejects=False,
        shards=shards,
        backend=backend,
        sidecar=sidecar,
        runs=runs,
        in_order=True,
    )


def over_of(
    found: Columns,
    columns: object,
    rows: object,
    span: object,
    malformed: ColumnArgument | None,
) -> Over:
    """The kind of an `over` operator on an input with these columns; arguments as in `over`.

    Raises:
        RefusedError: an argument or a column does not fit.
    """
    frame = _frame(found.given, rows, span)
    bound = aggregation_of(found, columns, {})
    texts = {each.name: each.text for each in bound.aggregates}
    ignored = None if malformed is None else found.given.column("malformed", malformed)
    own = [name for name in found.schema.names if name not in (*found.keys, ignored)]
    for name in (*own, *found.keys):
        if name in texts:
            raise found.given.refused(
                f"columns: {name} is a column of the input too; choose another name", about=name
            )
        if name not in found.types:
            raise found.given.refused(
                f"column {name} is of type {found.schema[name].dataType.simpleString()}; drop "
                "it, select a part, or cast it (to_json) first",
                about=name,
            )
    made = [each.accumulator for each in bound.aggregates]
    classes = {each.reference: type(each.made) for each in made if isinstance(each, OwnAccumulator)}
    return over_kind(texts, own, found.types, found.order, frame, classes)


def _frame(given: Arguments, rows: object, span: object) -> Frame:
    if rows is not None and span is not None:
        raise given.refused("rows and range cannot be combined; remove one of them")
    if span is not None:
        return Frame(FrameUnit.RANGE, given.span_ms("range", span))
    if rows is None:
        return WHOLE_LIFE
    if rows == "unbounded":
        return Frame(FrameUnit.ROWS)
    fix = f"pass a number from 1 to {MOST_ROWS}, or 'unbounded'"
    given.must_be("rows", rows, int, fix)
    if not isinstance(rows, int) or not 1 <= rows <= MOST_ROWS:
        raise given.refused(f"rows {rows!r} is not valid; {fix}")
    return Frame(FrameUnit.ROWS, rows)
