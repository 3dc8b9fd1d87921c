"""Checks of input rows as Spark expressions: the key hash, and the event time or a `RejectCode`."""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate.backends.shards.late_and_rejected_rows import RejectCode
from idlestate.config.sql.quoting import quoted
from idlestate.pipeline.key_hash import key_hash
from idlestate.pipeline.operator_checks import Marking
from idlestate.pipeline.operator_spec import HASH, TIME, OperatorSpec, carried_name


def marked_rows(events: DataFrame, spec: OperatorSpec, marking: Marking) -> DataFrame:
    """The columns the packing step needs, hash and time first."""
    names = events.columns if spec.rejects else [name for name, _ in spec.inputs]
    if spec.read_when is not None and spec.read_when not in names:
        names = [*names, spec.read_when]
    keys = [name for name, _ in spec.table.given_keys]
    front = [key_hash(keys, is_chain=spec.table.fixed_window is not None).alias(HASH)]
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
        has_null = reduce(or_, (_col(name).isNull() for name in keys))
        code = F.when(has_null, F.lit(int(RejectCode.NULL_KEY))).otherwise(code)
    if marking.malformed is not None:
        code = F.when(
            _col(marking.malformed).isNotNull(), F.lit(int(RejectCode.MALFORMED))
        ).otherwise(code)
    front.append(code.cast("long").alias(TIME))
    return events.select(*front, *back)


def _col(name: str) -> Column:
    return F.col(quoted(name))
