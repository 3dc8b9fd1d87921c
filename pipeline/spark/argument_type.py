"""Checks arguments whose type decides whether a call can start at all."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from idlestate.retention.setting_error import WrongTypeError


def check_dataframes(**frames: object) -> None:
    """Raise `WrongTypeError` unless these arguments are Spark DataFrames."""
    for name, value in frames.items():
        check_argument(name, value, DataFrame, "a Spark DataFrame")


def check_spark(spark: object) -> None:
    """Raise `WrongTypeError` unless the argument `spark` is a Spark session."""
    check_argument("spark", spark, SparkSession, "a SparkSession")


def check_argument(name: str, value: object, kind: Any, wanted: str) -> None:
    """Raise `WrongTypeError` unless an argument has this type; `wanted` says what to pass."""
    if not isinstance(value, kind):
        found = type(value)
        module = "" if found.__module__ == "builtins" else f"{found.__module__}."
        raise WrongTypeError(
            f"{name} is of type {module}{found.__qualname__}; pass {wanted} instead"
        )
