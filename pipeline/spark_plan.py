"""Plans of DataFrames as Spark's own classes have them."""

from typing import Any

from pyspark.sql import DataFrame

from idlestate.pipeline.spark_version import private_part


def has_watermark(frame: DataFrame) -> bool:
    """Whether `withWatermark` was called on the way to a DataFrame."""
    with private_part("the plan of a DataFrame (DataFrame._jdf)"):
        plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        return "EventTimeWatermark" in plan.toString()
