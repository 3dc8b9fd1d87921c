"""The common part of `retain` and `deduplicate`: checks arguments, marks and packs rows, and sends
them to the shards. Only the kind of operator differs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Unpack

from pyspark.sql import DataFrame

from idlestate.backends.shards.operator_kind import OperatorKind
from idlestate.pipeline.arguments import Arguments
from idlestate.pipeline.batch_dataframe import retain_batch
from idlestate.pipeline.operator_checks import (
    Columns,
    Marking,
    OperatorArguments,
    checked_operator,
)
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.packed_rows import packed, unpacked
from idlestate.pipeline.query_start_listener import register
from idlestate.pipeline.row_checks import marked_rows
from idlestate.pipeline.second_step import is_second_step
from idlestate.pipeline.sidecar_dataframe import sidecar_dataframe
from idlestate.pipeline.spark.argument_type import check_dataframes
from idlestate.pipeline.spark.session_settings import check_session
from idlestate.pipeline.state_place import state_place
from idlestate.pipeline.stateful_processor import ShardProcessor
from idlestate.pipeline.step_on_spark_state import OUTPUT_SCHEMA
from idlestate.sidecar.protocol.connection import Address


def operator_dataframe(
    events: DataFrame,
    kind_of: Callable[[Columns], OperatorKind],
    *,
    uid: str,
    backend: str,
    sidecar: str | Address | None,
    runs: str | None,
    bind: Callable[[OperatorSpec], OperatorSpec] | None = None,
    **arguments: Unpack[OperatorArguments],
) -> DataFrame:
    """The changelog of an operator of any kind; arguments as in `retain` and `checked_operator`.

    Args:
        bind: sets the operator's step, such as a function; None for a `LifeKind`.

    Raises:
        RefusedError: the input, session or arguments do not fit; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """
    check_dataframes(events=events)
    spark = events.sparkSession
    ignores_case = spark.conf.get("spark.sql.caseSensitive") != "true"
    spec, marking = checked_operator(
        Arguments(uid, events.columns, ignores_case=ignores_case),
        events.schema,
        kind_of,
        uid=uid,
        place=state_place(spark, uid, backend, sidecar, runs),
        **arguments,
    )
    if bind is not None:
        spec = bind(spec)
    if is_second_step(events, spec):
        spec = replace(spec, is_second=True)
    return changelog([events], [(spec, marking)])


def changelog(
    frames: Sequence[DataFrame], operators: Sequence[tuple[OperatorSpec, Marking]]
) -> DataFrame:
    """The changelog of an operator.

    Args:
        frames: its inputs, either all streams or all batch DataFrames.
        operators: for each input, the operator that packs its rows, and how they are marked; the
            first one represents all.

    Raises:
        RefusedError: the session does not fit.
    """
    inputs = [
        (marked_rows(frame, spec, marking), spec)
        for frame, (spec, marking) in zip(frames, operators, strict=True)
    ]
    marked, spec = inputs[0]
    if not marked.isStreaming:
        return retain_batch(inputs, spec)
    check_session(marked.sparkSession)
    register(marked.sparkSession, spec)
    return (_retain_stream if spec.backend == "spark" else sidecar_dataframe)(inputs, spec)


def _retain_stream(
    inputs: Sequence[tuple[DataFrame, OperatorSpec]], spec: OperatorSpec
) -> DataFrame:
    changed = (
        packed(inputs)
        .groupBy("shard")
        .transformWithState(
            ShardProcessor(spec.uid, spec.operator_step, spec.table.classes),
            OUTPUT_SCHEMA,
            "Append",
            "EventTime" if spec.is_event_time else "None",
        )
    )
    return unpacked(changed, spec)
