"""The supported versions of Spark, and the error if an internal part of Spark is missing.

Some parts that a query needs have no public name in Spark. Each such concern is in one file, which
accesses it inside `private_part`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyspark
from py4j.protocol import Py4JError

from idlestate.errors import RefusedError

OLDEST, NEWEST = (4, 1), (4, 3)
"""The oldest and newest supported versions; the tests run on all (`make test SPARK=4.1`)."""

REPARTITION_SINCE = (4, 2)
"""The first version that can repartition state."""

_SUPPORTED = "pyspark>=4.1,<4.4"


def spark_version() -> tuple[int, int]:
    """Major and minor version of the installed Spark."""
    major, minor = re.findall(r"\d+", pyspark.__version__)[:2]
    return int(major), int(minor)


def check_version() -> None:
    """Refuse an unsupported version of Spark.

    Raises:
        RefusedError: with the supported versions.
    """
    if not OLDEST <= spark_version() <= NEWEST:
        raise RefusedError(
            f"PySpark {pyspark.__version__} is not supported: install {_SUPPORTED}, or a version "
            "of idlestate that supports it"
        )


def check_since(since: tuple[int, int], what: str, instead: str) -> None:
    """Refuse a feature that the installed Spark lacks.

    Args:
        since: the first version of Spark that has it.
        what: the requested feature; starts the sentence.
        instead: what to do on an older version.

    Raises:
        RefusedError: the installed version is older.
    """
    if spark_version() < since:
        raise RefusedError(
            f"{what} needs Spark {since[0]}.{since[1]} or newer, and this is PySpark "
            f"{pyspark.__version__}: {instead}"
        )


@contextmanager
def private_part(what: str) -> Iterator[None]:
    """Context for access to internal parts or internal files of Spark.

    Args:
        what: the part; completes "cannot find ...".

    Raises:
        RefusedError: the part is not where the supported versions have it.
    """
    try:
        yield
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, Py4JError) as error:
        if isinstance(error, Py4JError) and "does not exist" not in str(error):
            raise
        raise RefusedError(
            f"cannot find {what}: idlestate was written for Spark {OLDEST[0]}.{OLDEST[1]} to "
            f"{NEWEST[0]}.{NEWEST[1]} as Apache publishes them, and this is PySpark "
            f"{pyspark.__version__}; install {_SUPPORTED}, or a version of idlestate that supports "
            "this one"
        ) from error
