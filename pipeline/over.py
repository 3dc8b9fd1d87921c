"""`over`: each row with aggregates of its key up to its time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame

from idlestate.backends.shards.over import Over, over_kind
from idlestate.pipeline.arguments import ColumnArgument
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
    """Emit each row with aggregates of the rows of its key so far.

    As `OVER (PARTITION BY key ORDER BY event_time)` in SQL, for streams and batch DataFrames: rows
    of one time, and of equal `order` columns, count together. Every row is a write, and the end of
    its key's life by the policy empties the frame. Rows wait until the watermark reaches them and
    take their turn in order of event time, so that no result depends on how they came.

    Args:
        events: the input, with columns of simple types and without a watermark.
        key: one or more columns, as for `retain`.
        columns: result name to aggregate, as `aggregates` of `retain`.
        uid: the operator's stable name, which identifies its state in the checkpoint.
        event_time: the event-time column, a timestamp.
        delay, policy, config, max_ahead, min_event_time: as for `retain`.
        order: columns that order rows of the same key and event time.
        malformed: as for `retain`; this column is not emitted.
        null_key, shards, backend, sidecar, runs: as for `retain`.

    Returns:
        Key columns, the other columns of the input, the aggregates, and `batch_id`: a row for each
        row of the input that is not late or rejected, in the batch of its turn.

    Raises:
        RefusedError: the input, session or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """

    def kind_of(found: Columns) -> Over:
        texts = {each.name: each.text for each in aggregation_of(found, columns, {}).aggregates}
        ignored = None if malformed is None else found.given.column("malformed", malformed)
        own = [name for name in found.schema.names if name not in (*found.keys, ignored)]
        for name in (*own, *found.keys):
            if name in texts:
                raise found.given.refused(
                    f"columns: {name} is a column of the input too; choose another name"
                )
            if name not in found.types:
                raise found.given.refused(
                    f"column {name} is of type {found.schema[name].dataType.simpleString()}; drop "
                    "it, select a part, or cast it (to_json) first"
                )
        return over_kind(texts, own, found.types, found.order)

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
