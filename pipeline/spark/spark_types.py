"""Conversion between Spark's and Arrow's types, for keys, aggregates and results."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import types as spark

from idlestate.errors import RefusedError
from idlestate.retention.shown_values import show

_PAIRS: tuple[tuple[spark.DataType, pa.DataType], ...] = (
    (spark.BooleanType(), pa.bool_()),
    (spark.ByteType(), pa.int8()),
    (spark.ShortType(), pa.int16()),
    (spark.IntegerType(), pa.int32()),
    (spark.LongType(), pa.int64()),
    (spark.FloatType(), pa.float32()),
    (spark.DoubleType(), pa.float64()),
    (spark.StringType(), pa.string()),
    (spark.BinaryType(), pa.binary()),
    (spark.DateType(), pa.date32()),
    (spark.TimestampType(), pa.timestamp("us", tz="UTC")),
    (spark.TimestampNTZType(), pa.timestamp("us")),
)
_TO_ARROW = dict(_PAIRS)
_TO_SPARK = {arrow: kind for kind, arrow in _PAIRS}


def arrow_type(kind: spark.DataType) -> pa.DataType | None:
    """The Arrow type of a Spark column; None for types that operators ignore."""
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _TO_ARROW.get(kind)


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """The Spark schema of Arrow columns; every column may be null."""
    return spark.StructType([spark.StructField(f.name, _spark_type(f.type)) for f in schema])


def _spark_type(kind: pa.DataType) -> spark.DataType:
    if pa.types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_list(kind):
        return spark.ArrayType(_spark_type(kind.value_type))
    if pa.types.is_map(kind):
        return spark.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type))
    if pa.types.is_struct(kind):
        return spark_schema(pa.schema(list(kind)))
    return _TO_SPARK[kind]


def arrow_schema(schema: pa.Schema | Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema of an input.

    Raises:
        RefusedError: it is not a schema.
    """
    if isinstance(schema, str):
        raise RefusedError(
            f"schema {show(schema)} is a DDL string, which is not accepted; pass a pyarrow schema, "
            "or a dict such as {'user': pa.string()}"
        )
    try:
        return pa.schema(schema)
    except (TypeError, ValueError) as error:
        raise RefusedError(
            f"schema {show(schema)} is not valid ({error}); pass a pyarrow schema, or a dict such "
            "as {'user': pa.string()}"
        ) from error


def spark_schema_of(schema: pa.Schema | Mapping[str, pa.DataType]) -> spark.StructType:
    """The schema of an input in Spark.

    Raises:
        RefusedError: Spark does not have a type, or it is not a schema.
    """
    found = arrow_schema(schema)
    for field in found:
        if not _is_of_spark(field.type):
            raise RefusedError(
                f"schema: column {field.name} is of type {field.type}, which Spark does not "
                'have; for timestamps use pa.timestamp("us", "UTC")'
            )
    return spark_schema(found)


def _is_of_spark(kind: pa.DataType) -> bool:
    try:
        spark_schema(pa.schema([("column", kind)]))
    except KeyError:
        return False
    return True
