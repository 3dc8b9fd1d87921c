"""SQL as Spark reads it, with the aggregates of idlestate."""

from typing import Any

from sqlglot.dialects.spark import Spark
from sqlglot.expressions import E


class QueryDialect(Spark):  # type: ignore[misc]  # its types are not read (pyproject.toml)
    """Spark's SQL, in which functions take any number of arguments.

    Spark, or `retain` for aggregates, checks the number of arguments: `collect_set(col, n)` has one
    more than in Spark.
    """

    class Parser(Spark.Parser):  # type: ignore[misc]
        """Spark's parser, which does not count arguments."""

        def validate_expression(self, expression: E, args: list[Any] | None = None) -> E:  # noqa: ARG002
            """Check an expression, but not whether it has too many arguments."""
            checked: E = super().validate_expression(expression)
            return checked
