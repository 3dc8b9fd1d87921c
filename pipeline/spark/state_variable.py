"""The variable of Spark's state that holds the record of a shard."""

from pyspark.sql.types import BinaryType, StructField, StructType

STATE_NAME = "shard"
STATE_SCHEMA = StructType([StructField("value", BinaryType())])
