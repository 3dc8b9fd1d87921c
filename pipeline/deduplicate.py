"""`deduplicate`: one record of each life of a key."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from idlestate.backends.shards.deduplication import Deduplication, Keep, deduplication
from idlestate.pipeline.arguments import ColumnArgument
from idlestate.pipeline.operator_checks import Columns
from idlestate.pipeline.operator_dataframe import operator_dataframe
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy
from idlestate.sidecar.protocol.connection import Address


def deduplicate(
    events: DataFrame,
    *,
    key: Sequence[ColumnArgument] | ColumnArgument,
    uid: str,
    event_time: ColumnArgument | None = None,
    keep: str = "first",
    delay: Duration = "0s",
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
    in_order: bool | None = None,
) -> DataFrame:
    """Emit one record per life of a key: the first at once, or the last when the life ends.

    Works on streaming and batch DataFrames. With `keep="first"`, the record that starts a life is
    emitted as an `update` row in its batch, and later records of the life are reads: under
    `on_create_and_write` they change nothing, under `on_read_and_write` they postpone the deadline.
    An `expire` row, with null in the input's other columns, reports the end of the life. With
    `keep="last"`, every record is a write, and the newest one is emitted as the `expire` row.

    Args:
        events: the input, with columns of simple types and without a watermark.
        key: one or more columns; records with equal values in them are duplicates.
        uid: the operator's stable name, which identifies its state in the checkpoint.
        event_time: the event-time column, a timestamp; required unless the policy uses processing
            time.
        keep: `first` or `last`, by event time, then the `order` columns, then the other columns.
        delay, policy, config, order, max_ahead, min_event_time: as for `retain`.
        malformed: as for `retain`; this column is not emitted.
        null_key, rejects, shards, backend, sidecar, runs, in_order: as for `retain`.

    Returns:
        Key columns, the other columns of the input, `change`, `created_at`, `last_access`,
        `expired_at`, `reason`, `batch_id`, and with `rejects` the column `rejected`.

    Raises:
        RefusedError: the input, session or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """

    def kind_of(columns: Columns) -> Deduplication:
        return deduplication_of(columns, keep, malformed)

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
        rejects=rejects,
        shards=shards,
        backend=backend,
        sidecar=sidecar,
        runs=runs,
        in_order=in_order,
    )


def deduplication_of(
    columns: Columns, keep: object, malformed: ColumnArgument | None
) -> Deduplication:
    """The kind of a `deduplicate` operator on an input with these columns.

    Raises:
        RefusedError: an argument or a column does not fit.
    """
    given = columns.given
    ignored = None if malformed is None else given.column("malformed", malformed)
    if not isinstance(keep, str) or keep not in list(Keep):
        raise given.refused(f"keep {keep!r} is not valid; pass 'first' or 'last'")
    names = [name for name in columns.schema.names if name not in (*columns.keys, ignored)]
    for name in names:
        if name not in columns.types:
            raise given.refused(
                f"column {name} is of type {columns.schema[name].dataType.simpleString()}, and "
                "records are compared by all their columns: drop it, select a part, or cast it "
                "(to_json) first",
                about=name,
            )
    return deduplication(Keep(keep), names, columns.types, columns.order)
