"""Plans of DataFrames as Spark's own classes have them."""

from typing import Any

from pyspark.sql import Column, DataFrame

from idlestate.pipeline.spark_version import private_part

_ONE_FRAME = -1


def has_watermark(frame: DataFrame) -> bool:
    """Whether `withWatermark` was called on the way to a DataFrame."""
    with private_part("the plan of a DataFrame (DataFrame._jdf)"):
        plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        return "EventTimeWatermark" in plan.toString()


def observe(frame: DataFrame, name: str, metric: Column) -> DataFrame:
    """Like `frame.observe`, for a name that another frame of the same query may have too.

    Spark refuses such frames with the whole plan when they are put together. To it these are one
    frame, and the query's start says which uid is used twice.
    """
    with private_part("the plan of an observed DataFrame (CollectMetrics)"):
        plan: Any = frame.observe(name, metric)._jdf.logicalPlan()  # noqa: SLF001
        plan = plan.copy(plan.name(), plan.metrics(), plan.child(), _ONE_FRAME)
        session: Any = frame.sparkSession._jsparkSession  # noqa: SLF001
        jvm: Any = frame.sparkSession._jvm  # noqa: SLF001
        dataset = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan)
        return DataFrame(dataset, frame.sparkSession)
