"""Plans of DataFrames in Spark's internal classes."""

from typing import Any

from pyspark.sql import Column, DataFrame

from idlestate.pipeline.spark.spark_version import private_part

_ONE_FRAME = -1


def has_watermark(frame: DataFrame) -> bool:
    """Whether a DataFrame's plan contains `withWatermark`."""
    return "EventTimeWatermark" in analyzed_plan(frame)


def analyzed_plan(frame: DataFrame) -> str:
    """The plan of a DataFrame as text, its last step first."""
    with private_part("the plan of a DataFrame (DataFrame._jdf)"):
        plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        return str(plan.toString())


def observe(frame: DataFrame, name: str, metric: Column) -> DataFrame:
    """Like `frame.observe`, for a name that another frame of the same query may also use.

    Spark would refuse a query with two such frames, with the entire plan as the message. With this
    observation it accepts them, and the query's start reports which uid is used twice.
    """
    with private_part("the plan of an observed DataFrame (CollectMetrics)"):
        plan: Any = frame.observe(name, metric)._jdf.logicalPlan()  # noqa: SLF001
        plan = plan.copy(plan.name(), plan.metrics(), plan.child(), _ONE_FRAME)
        session: Any = frame.sparkSession._jsparkSession  # noqa: SLF001
        dataset = getattr(frame.sparkSession._jvm, "org.apache.spark.sql.classic.Dataset")  # noqa: SLF001
        return DataFrame(dataset.ofRows(session, plan), frame.sparkSession)
