"""`retain`: aggregates per key, with expiry by a retention policy."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame

from idlestate.backends.shards.accumulator import Accumulator
from idlestate.backends.shards.aggregation import Aggregation, aggregation
from idlestate.backends.shards.definition_change import check_renamed
from idlestate.backends.shards.own_accumulator import reference_of
from idlestate.config.sql.aggregate_text import parse_call
from idlestate.pipeline.arguments import ColumnArgument
from idlestate.pipeline.operator_checks import Columns
from idlestate.pipeline.operator_dataframe import operator_dataframe
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy
from idlestate.retention.windows import Windows
from idlestate.sidecar.protocol.connection import Address


def retain(
    events: DataFrame,
    *,
    key: Sequence[ColumnArgument] | ColumnArgument,
    aggregates: Mapping[str, ColumnArgument | Accumulator] | Sequence[Column] | Column,
    uid: str,
    event_time: ColumnArgument | None = None,
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
    window: Windows | None = None,
    fire_after: Duration | None = None,
    in_order: bool | None = None,
) -> DataFrame:
    """Aggregate events per key, and expire keys by a retention policy.

    Works on streaming and batch DataFrames. The result is an append-only changelog. Per batch, each
    key yields at most one `update` row, with the aggregates of its open life, and one `expire` row
    for each life that ended, with its final aggregates.

    Args:
        events: the input. It must not have a watermark: `delay` sets one.
        key: one or more columns of string, binary, integer, boolean, date or timestamp type. Null
            is a key like any other, unless `null_key` rejects it.
        aggregates: result name to aggregate, such as `count` or `max_by(col, by)`, as text or as a
            Spark function of the same name; or a list of named columns, such as
            `F.count("*").alias("n")`. docs/aggregates.md lists the functions.
        uid: the operator's stable name, which identifies its state in the checkpoint.
        event_time: the event-time column, a timestamp; required unless the policy uses processing
            time.
        delay: how late events may arrive: text such as `10m` or `1h30m`, or a timedelta.
        policy: the name of a policy in `config`, or a `Policy`. None uses the policy that the
            selectors of `config` assign to this uid; without one, state grows without bound.
        config: the policy file.
        order: columns that order records of the same key and event time.
        read_when: a boolean column that marks read-only records.
        max_ahead: rows with event times further ahead of the batch's time are rejected.
        min_event_time: rows with event times before this UTC date (or `2015-09-12T06:30:00Z`)
            are rejected; not before 1970-01-02.
        malformed: a column that is not null if the source could not parse the row.
        null_key: `keep`, or `reject` to reject rows in which any key column is null.
        rejects: whether to emit late and rejected rows as `reject` rows.
        shards: number of shards of a new checkpoint, fixed from then on; default: four per state
            partition.
        backend: state placement: `spark`, in the query's checkpoint, or `rocksdb` or `heap`, in a
            sidecar. With a sidecar, expire rows come in a later batch than the one that
            closed the life.
        sidecar: the sidecar's address, `unix:PATH` or `HOST:PORT`; by default, the driver starts
            a sidecar in the checkpoint's folder.
        runs: location of the state files, a path or URL (`s3://bucket/folder`) that driver and
            executors can reach; default: the checkpoint. Fixed by the first start.
        renamed: new to old names of aggregates; a renamed aggregate keeps the state under its old
            name. Entries may stay after they have taken effect.
        window: aggregate per key and window of event time: `tumbling("10m")`,
            `hopping("10m", "1m")`, `cumulate("1h", "1m")` or `session("30m")`. The window
            replaces the policy: its expire row is its final result. Fixed by the first start.
        fire_after: emit the first `update` row of a window when the newest event is this long past
            its end, at most `delay`; default: an update per batch that changes the window.
        in_order: whether rows wait until the watermark reaches them and then count in order of
            event time, so the result does not depend on how the input arrives or is divided into
            batches. Results come about `delay` later. Event time only; fixed by the first start.
            Default: True for `session`, else False.

    Returns:
        Key columns, with windows `window_start` and `window_end`, aggregates, `change`,
        `created_at`, `last_access`, `expired_at`, `reason`, `batch_id`, and with `rejects` the
        column `rejected`.

    Raises:
        RefusedError: the input, session or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """

    def kind_of(columns: Columns) -> Aggregation:
        return aggregation_of(columns, aggregates, renamed or {})

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
        window=window,
        fire_after=fire_after,
        in_order=in_order,
    )


def aggregation_of(columns: Columns, aggregates: object, renamed: Mapping[str, str]) -> Aggregation:
    """The kind of operator for these aggregates on an input with these columns.

    Raises:
        RefusedError: there are none, or one cannot be used.
    """
    given, types = columns.given, columns.types
    texts = given.aggregates(aggregates)
    if not texts:
        raise given.refused("no aggregates; add one, such as clicks: count")
    for name, text in texts.items():
        for column in parse_call(text).columns:
            if column in columns.schema.names and column not in types:
                raise given.refused(
                    f"aggregate {name}: column {column} is of type "
                    f"{columns.schema[column].dataType.simpleString()}; select a part or cast it "
                    "first",
                    about=name,
                )
    wrong = check_renamed(texts, renamed)
    if wrong:
        raise given.refused(wrong)
    values = aggregates.values() if isinstance(aggregates, Mapping) else ()
    own = {reference_of(each): type(each) for each in values if isinstance(each, Accumulator)}
    return aggregation(texts, types, columns.order, own)
