"""`sql`: a query in SQL as an operator."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from idlestate.config.sql.planning import plan_query
from idlestate.config.sql.query_plan import QueryRows
from idlestate.pipeline.planned_query import planned_query, reads_of_spark
from idlestate.retention.durations import Duration
from idlestate.retention.policy import Policy
from idlestate.sidecar.protocol.connection import Address


def sql(
    spark: SparkSession,
    query: str,
    *,
    uid: str,
    event_time: str | None = None,
    delay: Duration = "0s",
    policy: str | Policy | None = None,
    config: str | Path | None = None,
    read_when: str | None = None,
    max_ahead: Duration = "1h",
    min_event_time: str = "1970-01-02",
    malformed: str | None = None,
    null_key: str = "keep",
    rejects: bool = False,
    shards: int | None = None,
    backend: str = "spark",
    sidecar: str | Address | None = None,
    runs: str | None = None,
    renamed: Mapping[str, str] | None = None,
    fire_after: Duration | None = None,
    in_order: bool | None = None,
    version_event_time: str | None = None,
    version_delay: Duration | None = None,
    idle_after: Duration | Mapping[str, Duration] | None = None,
    right_event_time: str | None = None,
    right_delay: Duration | None = None,
    right_policy: str | Policy | None = None,
) -> DataFrame:
    """Run a query whose state expires by a retention policy.

    GROUP BY becomes `retain`. DISTINCT, and ROW_NUMBER() with the condition that it is 1, become
    `deduplicate`. Aggregates and ROW_NUMBER() with OVER become `over`. FOR SYSTEM_TIME AS OF and
    ASOF JOIN become `join_asof`, other joins `join`. Results and state are the same. Tables may be
    views, such as those of `createOrReplaceTempView` on a streaming DataFrame. A hint takes
    precedence over `policy`: `/*+ STATE_TTL('clicks'='1d') */` or
    `/*+ RETENTION('clicks'='sessions') */`.

    Args:
        spark: the session, whose tables and views the query reads.
        query: one SELECT.
        uid: the operator's stable name, which identifies its state in the checkpoint.
        event_time: the event-time column of the input, a timestamp; required unless the policy uses
            processing time, or the query names it in a window or ORDER BY.
        read_when, renamed, fire_after: as for `retain`; with GROUP BY only.
        version_event_time, version_delay: as for `join_asof`; with an as-of join only.
        right_event_time, right_delay, right_policy: as for `join`; with a join of rows only.
        idle_after: as for `join` and `join_asof`; with a join only.
        delay, policy, config, max_ahead, min_event_time: as for `retain`.
        malformed, null_key, rejects, shards, backend, sidecar, runs, in_order: as for the operator.
            An argument that does not apply to the query is refused; None means its default.

    Returns:
        The columns that the query selects and the columns that its operator adds: for `retain` and
        `deduplicate` `change`, `created_at`, `last_access`, `expired_at`, `reason`, `batch_id`, and
        with `rejects` the column `rejected`; for `over` and the joins `batch_id`, and for the
        joins with `rejects` `reason`, `input` and `rejected`.

    Raises:
        RefusedError: the query is not supported, or the input, session or arguments are not valid;
            the text says where and how to fix it.
        ConfigError: the policy file is invalid.
    """

    def table(rows: QueryRows) -> DataFrame:
        with reads_of_spark(uid, rows.place):
            return spark.table(rows.table)

    return planned_query(
        plan_query(query),
        table,
        uid=uid,
        event_time=event_time,
        delay=delay,
        policy=policy,
        config=config,
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
        fire_after=fire_after,
        in_order=in_order,
        version_event_time=version_event_time,
        version_delay=version_delay,
        idle_after=idle_after,
        right_event_time=right_event_time,
        right_delay=right_delay,
        right_policy=right_policy,
    )
