"""What `retain` and `deduplicate` share: arguments are checked, rows are marked, packed and sent to
the shards. Only the kind of operator differs.
"""

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Unpack

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate.backends.shards.operator_kind import OperatorKind
from idlestate.errors import RefusedError
from idlestate.pipeline.arguments import Arguments
from idlestate.pipeline.batch_dataframe import retain_batch
from idlestate.pipeline.bound_operator import Columns, Marking, OperatorArguments, bound_operator
from idlestate.pipeline.key_hash import key_hash
from idlestate.pipeline.operator_spec import HASH, TIME, OperatorSpec, RejectCode, carried_name
from idlestate.pipeline.packed_rows import packed, unpacked
from idlestate.pipeline.retain_in_sidecar import retain_outside
from idlestate.pipeline.session import check_session, register
from idlestate.pipeline.spark_plan import has_watermark
from idlestate.pipeline.state_place import state_place
from idlestate.pipeline.stateful_step import OUTPUT_SCHEMA, ShardOperator
from idlestate.sidecar.protocol.connection import Address


def operator_on(
    events: DataFrame,
    kind_of: Callable[[Columns], OperatorKind],
    *,
    uid: str,
    backend: str,
    sidecar: str | Address | None,
    runs: str | None,
    **arguments: Unpack[OperatorArguments],
) -> DataFrame:
    """The changelog of an operator of some kind; arguments as of `retain` and `bound_operator`.

    Raises:
        RefusedError: the input, session or arguments do not fit; the text says what to write.
        ConfigError: the policy file is wrong.
    """
    spark = events.sparkSession
    ignores_case = spark.conf.get("spark.sql.caseSensitive") != "true"
    spec, marking = bound_operator(
        Arguments(uid, events.columns, ignores_case=ignores_case),
        events.schema,
        kind_of,
        uid=uid,
        place=state_place(spark, uid, backend, sidecar, runs),
        **arguments,
    )
    if events.isStreaming and has_watermark(events):
        raise RefusedError(
            f"operator {uid!r}: the input has a watermark already; remove withWatermark and pass "
            "delay='...', which sets a watermark that bad event times do not affect"
        )
    marked = _mark(events, spec, marking)
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


def _mark(events: DataFrame, spec: OperatorSpec, marking: Marking) -> DataFrame:
    """The columns the packing step needs, hash and time first."""
    names = events.columns if spec.rejects else [name for name, _ in spec.inputs]
    if spec.read_when is not None and spec.read_when not in names:
        names = [*names, spec.read_when]
    front = [key_hash(spec.table.key_names).alias(HASH)]
    back = [_col(name).alias(carried_name(name)) for name in dict.fromkeys(names)]
    if not spec.has_time:
        return events.select(*front, *back)
    code: Column = F.lit(0)
    if marking.event_time is not None:
        moment = _col(marking.event_time).cast("timestamp")
        earliest = F.timestamp_millis(F.lit(marking.min_event_time_ms))
        code = (
            F.when(moment.isNull(), F.lit(int(RejectCode.NULL_TIME)))
            .when(moment < earliest, F.lit(int(RejectCode.TOO_OLD)))
            .otherwise(F.unix_millis(moment))
        )
    if marking.null_key == "reject":
        has_null = reduce(or_, (_col(name).isNull() for name in spec.table.key_names))
        code = F.when(has_null, F.lit(int(RejectCode.NULL_KEY))).otherwise(code)
    if marking.malformed is not None:
        code = F.when(
            _col(marking.malformed).isNotNull(), F.lit(int(RejectCode.MALFORMED))
        ).otherwise(code)
    front.append(code.cast("long").alias(TIME))
    return events.select(*front, *back)


def _col(name: str) -> Column:
    return F.col(f"`{name}`")
