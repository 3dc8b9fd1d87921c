"""What the Spark that tests run on lacks; tests/pipeline/test_spark_version.py sees it refused."""

import pytest

from idlestate.pipeline.spark.spark_version import REPARTITION_SINCE, spark_version

CAN_REPARTITION = spark_version() >= REPARTITION_SINCE
needs_repartition = pytest.mark.skipif(
    not CAN_REPARTITION, reason="Spark takes state to other partitions from 4.2 on"
)
