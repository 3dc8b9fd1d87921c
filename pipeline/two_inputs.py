"""What operators with two inputs share."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from idlestate.pipeline.arguments import Arguments
from idlestate.pipeline.operator_checks import Columns
from idlestate.pipeline.operator_dataframe import refuse_watermark

_WATERMARKS = "spark.sql.streaming.multipleWatermarkPolicy"


def check_two_inputs(given: Arguments, uid: str, first: DataFrame, second: DataFrame) -> None:
    """Refuse two DataFrames that no operator can take together.

    Raises:
        RefusedError: with how to fix it.
    """
    if first.isStreaming != second.isStreaming:
        raise given.refused(
            "one input is a stream and the other is not; read both as streams, or both as batch "
            "DataFrames"
        )
    for frame in (first, second):
        refuse_watermark(frame, uid)
    policy = str(first.sparkSession.conf.get(_WATERMARKS))
    if first.isStreaming and policy.lower() != "min":
        raise given.refused(
            f"{_WATERMARKS} is {policy}, which makes rows of the input that is further behind "
            "late; set it to min"
        )


def check_types(columns: Columns, names: Sequence[str]) -> None:
    """Refuse columns that cannot be kept.

    Raises:
        RefusedError: with what to do about the column.
    """
    for name in names:
        if name not in columns.types:
            raise columns.given.refused(
                f"column {name} is of type {columns.schema[name].dataType.simpleString()}; drop "
                "it, select a part, or cast it (to_json) first"
            )
