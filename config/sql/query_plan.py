"""The meaning of a query: an operator, its arguments, its inputs and its output.

It does not need Spark. Texts of expressions are Spark SQL.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from idlestate.config.sql.query_error import QueryPlace


@dataclass(frozen=True, slots=True)
class Named:
    """The rows have a name, as in `FROM clicks c`: columns may be written `c.page`."""

    name: str


@dataclass(frozen=True, slots=True)
class Where:
    """Only rows that meet a condition, which is at `place`."""

    condition: str
    place: QueryPlace | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Selected:
    """Only these columns, each an expression that may have a name; `places` has their places."""

    columns: tuple[str, ...]
    places: tuple[QueryPlace, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Computed:
    """Additional columns, name to expression, which replace columns of the same name. `places` has
    their places by lower-case name.
    """

    columns: Mapping[str, str]
    places: Mapping[str, QueryPlace] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Only:
    """Only these columns, and those named by other arguments of the operator. `places` has their
    places by lower-case name.
    """

    columns: tuple[str, ...]
    places: Mapping[str, QueryPlace] = field(default_factory=dict, compare=False)


Step = Named | Where | Selected | Computed | Only


def right_event_time_name(time: str) -> str:
    """The name of the event time of a join's right rows, which left rows do not have."""
    return f"right.{time}"


@dataclass(frozen=True, slots=True)
class QueryRows:
    """The input of an operator.

    Attributes:
        table: the name of a table or view, quoted if needed.
        steps: the steps applied to its rows, in order.
        place: where the query names the table.
    """

    table: str
    steps: tuple[Step, ...]
    place: QueryPlace = field(compare=False)

    @property
    def name(self) -> str:
        """The table's name without quotes; names with several parts keep quotes around dots."""
        return self.table[1:-1].replace("``", "`")

    def then(self, *steps: Step) -> "QueryRows":
        """The same rows with additional steps."""
        return QueryRows(self.table, (*self.steps, *steps), self.place)


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention that a hint sets for an input: a time to live, or the name of a policy.

    Attributes:
        ttl_ms: the time to live, 0 for never; None if the hint names a policy.
        policy: the name of a policy.
        place: where the hint is.
    """

    ttl_ms: int | None
    policy: str | None
    place: QueryPlace = field(compare=False)


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query as a call of an operator.

    Attributes:
        operator: the function, such as `retain`.
        rows: its input.
        arguments: the arguments that the query defines, in the form of the Python function.
        output: expressions over the operator's result, before the columns that idlestate adds; `*`
            means all other columns. None: the unchanged result.
        having: a condition that rows of the result must meet.
        name: the name of the result's rows in `output` and `having`; None: they have none.
        retention: the retention of a hint; None without one.
        second: the second input of a join.
        second_retention: the retention of a hint for it.
        new_names: names that must not be columns of the input, because they would be ambiguous, and
            where the query uses them.
        places: where the query selects the expressions in `output`, if both have the same length.
        condition_place: where the query has the condition `having`.
        named: where the query has the columns and aggregates that the operator knows by these
            names, in lower case; `window` is that of GROUP BY, and the empty name is the input.
    """

    operator: str
    rows: QueryRows
    arguments: Mapping[str, object]
    output: tuple[str, ...] | None = None
    having: str | None = None
    name: str | None = None
    retention: Retention | None = None
    second: QueryRows | None = None
    second_retention: Retention | None = None
    new_names: Mapping[str, QueryPlace] = field(default_factory=dict, compare=False)
    places: tuple[QueryPlace, ...] = field(default=(), compare=False)
    condition_place: QueryPlace | None = field(default=None, compare=False)
    named: Mapping[str, QueryPlace] = field(default_factory=dict, compare=False)

    def place_of(self, name: str) -> QueryPlace:
        """Where the query defines what the operator knows by this name; otherwise the place of its
        table.
        """
        return self.named.get(name.lower(), self.rows.place)
