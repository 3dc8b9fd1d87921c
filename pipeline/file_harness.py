"""A pipeline of a configuration file batch by batch in the calling process."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from idlestate.backends.shards.operator_kind import OperatorKind
from idlestate.config.loading import Config
from idlestate.config.pipeline_settings import Pipeline, SourceSection
from idlestate.errors import RefusedError
from idlestate.functions.function_class import load_co_function, load_function
from idlestate.pipeline.arguments import Arguments
from idlestate.pipeline.co_function_harness import CoFunctionHarness
from idlestate.pipeline.deduplicate import deduplication_of
from idlestate.pipeline.function_harness import FunctionHarness
from idlestate.pipeline.join import join_operator
from idlestate.pipeline.join_asof import PROBES, VERSIONS, as_of_operator
from idlestate.pipeline.operator_checks import Columns
from idlestate.pipeline.output_schema import output_schema
from idlestate.pipeline.over import over_of
from idlestate.pipeline.retain import aggregation_of
from idlestate.pipeline.retain_harness import HARNESS, Input, OperatorHarness
from idlestate.pipeline.spark.spark_types import spark_schema_of
from idlestate.pipeline.two_input_harness import TwoInputHarness
from idlestate.pipeline.two_inputs import LEFT, RIGHT

_TIME = pa.timestamp("us", "UTC")


def file_harness(config: Config, uid: str, records: Sequence[Any]) -> OperatorHarness[Any]:
    """The operator of a pipeline, without its files, sinks and checkpoint.

    Args:
        config: the loaded file.
        uid: the pipeline in the file.
        records: the records to be fed; their types are used for columns that the file does not
            define.

    Raises:
        RefusedError: the pipeline needs Spark, or columns and fields do not fit.
    """
    pipeline = config.pipelines[uid]
    if uid in config.queries:
        raise RefusedError(
            f"pipeline {uid} has a query, whose expressions only Spark computes; write the "
            "operator with key, aggregates and kind for this test"
        )
    if pipeline.second is not None:
        return _of_two(config, uid, pipeline, records)
    schema = _schema(pipeline.source, pipeline.event_time, records)
    common = _common(config, uid, pipeline)
    common |= {"key": list(pipeline.key), "order": pipeline.order}
    if pipeline.kind == "process":
        return FunctionHarness(
            schema,
            function=load_function(uid, str(pipeline.function)),
            output=str(pipeline.output),
            columns=pipeline.columns or None,
            read_when=pipeline.read_when,
            in_order=pipeline.in_order,
            on_error=pipeline.on_error,
            **common,
        )

    def kind_of(found: Columns) -> OperatorKind:
        match pipeline.kind:
            case "over":
                span = None if pipeline.range_ms is None else _span(pipeline.range_ms)
                return over_of(found, pipeline.aggregates, pipeline.rows, span, None)
            case "deduplicate":
                return deduplication_of(found, pipeline.keep, None)
            case _:
                return aggregation_of(found, pipeline.aggregates, {})

    fire_after_ms = pipeline.fire_after_ms
    return OperatorHarness(
        schema,
        kind_of,
        None,
        read_when=pipeline.read_when,
        malformed=None,
        window=pipeline.window,
        fire_after=None if fire_after_ms is None else _span(fire_after_ms),
        in_order=True if pipeline.kind == "over" else pipeline.in_order,
        **common,
    )


class _FileJoin(TwoInputHarness):
    """A join of a file."""

    def __init__(self, schemas: Sequence[pa.Schema], operators: Sequence[tuple[Any, Any]]) -> None:
        self._bind = None
        inputs = zip(schemas, operators, strict=True)
        self._begin([Input(schema, *operator) for schema, operator in inputs], None)


def _of_two(
    config: Config, uid: str, pipeline: Pipeline, records: Sequence[Any]
) -> OperatorHarness[Any]:
    second = pipeline.second
    assert second is not None
    names = (PROBES, VERSIONS) if pipeline.kind == "join_asof" else (LEFT, RIGHT)
    given: dict[str, list[Any]] = {name: [] for name in names}
    for name, row in records:
        given.setdefault(name, []).append(row)
    schemas = [
        _schema(source, time, given[name])
        for name, source, time in zip(
            names,
            (pipeline.source, second.source),
            (pipeline.event_time, second.event_time),
            strict=True,
        )
    ]
    spans_ms = dict(zip(names, (pipeline.idle_after_ms, second.idle_after_ms), strict=True))
    behind = None if second.delay_ms is None else _span(second.delay_ms)
    common = _common(config, uid, pipeline)
    common["idle_after"] = {
        name: _span(span_ms) for name, span_ms in spans_ms.items() if span_ms is not None
    }
    if pipeline.kind == "co_process" and pipeline.right is not None:
        return CoFunctionHarness(
            *schemas,
            key=list(pipeline.key),
            function=load_co_function(uid, str(pipeline.function)),
            output=str(pipeline.output),
            right_event_time=second.event_time,
            columns=pipeline.columns or None,
            right_columns=pipeline.right.columns or None,
            right_delay=behind,
            order=pipeline.order,
            in_order=pipeline.in_order,
            on_error=pipeline.on_error,
            **common,
        )
    common |= {
        "ignores_case": True,
        "uid": HARNESS,
        "on": list(pipeline.key),
        "how": pipeline.how,
        "shards": 1,
        "place": {"runs": None},
    }
    spark_schemas = [spark_schema_of(schema) for schema in schemas]
    if pipeline.versions is not None:
        operators = as_of_operator(
            *spark_schemas,
            version_event_time=second.event_time,
            version_delay=behind,
            columns=pipeline.versions.columns or None,
            order=pipeline.order,
            **common,
        )
        return _FileJoin(schemas, operators)
    between = pipeline.between
    operators = join_operator(
        *spark_schemas,
        right_event_time=second.event_time,
        right_delay=behind,
        right_policy=config.right_policy_for(uid),
        between=None if between is None else (_span(between[0]), _span(between[1])),
        **common,
    )
    return _FileJoin(schemas, operators)


def _common(config: Config, uid: str, pipeline: Pipeline) -> dict[str, Any]:
    first = datetime.fromtimestamp(pipeline.min_event_time_ms / 1000, UTC)
    return {
        "event_time": pipeline.event_time,
        "delay": _span(pipeline.delay_ms),
        "policy": None if pipeline.window else config.policy_for(uid),
        "config": None,
        "max_ahead": _span(pipeline.max_ahead_ms),
        "min_event_time": first.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "null_key": pipeline.null_key,
        "rejects": pipeline.sinks.rejects is not None,
    }


def columns_of(rows: Sequence[Mapping[str, Any]]) -> pa.Schema:
    """The columns of rows, and their types.

    Raises:
        RefusedError: the rows have no columns in common.
    """
    try:
        return pa.Table.from_pylist([dict(row) for row in rows]).schema
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise RefusedError(f"the records have no common columns: {error}") from error


def _schema(source: SourceSection, event_time: str | None, rows: Sequence[Any]) -> pa.Schema:
    """The columns of an input: those of the file's schema, else those of the rows."""
    if source.ddl is None:
        found = columns_of(rows)
    else:
        found = output_schema(Arguments(HARNESS, [], ignores_case=True), source.ddl)
    if event_time not in found.names:
        return found
    at = found.get_field_index(str(event_time))
    return found.set(at, pa.field(str(event_time), _TIME))


def _span(span_ms: int) -> timedelta:
    return timedelta(milliseconds=span_ms)
