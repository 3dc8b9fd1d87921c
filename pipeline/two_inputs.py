"""The common part of operators with two inputs: each has its own delay and columns, and may be
idle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from idlestate.backends.shards.input_watermarks import InputTerms
from idlestate.pipeline.arguments import Arguments, ColumnArgument
from idlestate.pipeline.operator_checks import Columns, Marking
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.second_step import refuse_second_step
from idlestate.retention.added_columns import INPUT
from idlestate.retention.durations import Duration

LEFT, RIGHT = "left", "right"
"""The names of the inputs of symmetric operators."""
_WATERMARKS = "spark.sql.streaming.multipleWatermarkPolicy"


@dataclass(frozen=True, slots=True)
class OneOfTwo:
    """One of two inputs.

    Attributes:
        name: its name, as in metrics and in `idle_after`.
        columns: its packed columns, keys first.
        delay: how late its rows may arrive.
        event_time: its event-time column; None in processing time.
        malformed: the column that is not null in malformed rows, if it has one.
        drops_null_keys: whether rows with a null in the key match nothing and change nothing.
        all_read: whether all its rows are reads.
    """

    name: str
    columns: Sequence[str]
    delay: Duration
    event_time: str | None
    malformed: str | None
    drops_null_keys: bool = False
    all_read: bool = False


def check_two_inputs(given: Arguments, uid: str, first: DataFrame, second: DataFrame) -> None:
    """Refuse two DataFrames that no operator accepts together.

    Raises:
        RefusedError: they are refused; the text says how to fix it.
    """
    if first.isStreaming != second.isStreaming:
        raise given.refused(
            "one input is a stream and the other is not; read both as streams, or both as batch "
            "DataFrames",
            about="",
        )
    for frame in (first, second):
        refuse_second_step(frame, uid)
    policy = str(first.sparkSession.conf.get(_WATERMARKS))
    if first.isStreaming and policy.lower() != "min":
        raise given.refused(
            f"{_WATERMARKS} is {policy}, which makes rows of the input that is further behind "
            "late; set it to min"
        )


def check_types(columns: Columns, names: Sequence[str]) -> None:
    """Refuse columns that cannot be stored.

    Raises:
        RefusedError: a column is refused; the text says what to do.
    """
    for name in names:
        if name not in columns.types:
            raise columns.given.refused(
                f"column {name} is of type {columns.schema[name].dataType.simpleString()}; drop "
                "it, select a part, or cast it (to_json) first",
                about=name,
            )


def without_malformed(
    given: Arguments, malformed: ColumnArgument | None, *schemas: StructType
) -> list[tuple[StructType, str | None]]:
    """The other columns of two inputs, and the name of the column `malformed` in each; None if an
    input lacks it.

    Raises:
        RefusedError: neither has it.
    """
    if malformed is None:
        return [(schema, None) for schema in schemas]
    every = [name for schema in schemas for name in schema.names]
    found: list[tuple[StructType, str | None]] = []
    for schema in schemas:
        name = given.among(every).column("malformed", malformed)
        name = given.among(schema.names).column("malformed", name)
        others = StructType([field for field in schema.fields if field.name != name])
        found.append((others, name if name in schema.names else None))
    if not any(name for _, name in found):
        raise given.refused(
            f"malformed: no input has a column {malformed}; available: "
            f"{', '.join(dict.fromkeys(every))}"
        )
    return found


def operators_of_inputs(
    given: Arguments,
    spec: OperatorSpec,
    marking: Marking,
    inputs: Sequence[OneOfTwo],
    idle_after: Duration | Mapping[str, Duration] | None,
) -> list[tuple[OperatorSpec, Marking]]:
    """The operator for each of its two inputs, which marks and packs its rows; the first one
    represents both.

    Args:
        given: the arguments of the operator.
        spec, marking: the operator.
        inputs: both inputs.
        idle_after: how long an input without rows holds the watermark back: one duration for both,
            or durations by input name.

    Raises:
        RefusedError: `idle_after` is not valid.
    """
    names = [each.name for each in inputs]
    spans = idle_after if isinstance(idle_after, Mapping) else dict.fromkeys(names, idle_after)
    unknown = sorted(set(spans) - set(names))
    if unknown:
        raise given.refused(
            f"idle_after: {unknown[0]} is not an input; the inputs are {' and '.join(names)}"
        )
    terms = {}
    for each in inputs:
        span = spans.get(each.name)
        idle_after_ms = None if span is None else given.span_ms("idle_after", span)
        terms[each.name] = InputTerms(given.span_ms("delay", each.delay), idle_after_ms)
    types = dict(spec.inputs)
    if spec.rejects and INPUT in types:
        raise given.refused(
            f"column {INPUT} is added by rejects=True; rename the one you have", about=INPUT
        )
    has_time = spec.has_time or any(each.malformed for each in inputs)
    of_inputs = [
        replace(
            spec,
            inputs=tuple((name, types[name]) for name in each.columns),
            delay_ms=terms[each.name].delay_ms,
            has_time=has_time,
            input_name=each.name,
            terms=terms,
            drops_null_keys=each.drops_null_keys,
            all_read=each.all_read,
            # The listener finds the operator only by the packer of its first input.
            token=spec.token if at == 0 else f"{spec.token}_{each.name}",
        )
        for at, each in enumerate(inputs)
    ]
    return [
        (of, replace(marking, event_time=each.event_time, malformed=each.malformed))
        for of, each in zip(of_inputs, inputs, strict=True)
    ]
