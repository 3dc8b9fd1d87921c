"""The meaning of a query: an operator, its arguments, its inputs and its output.

No Spark is needed for it. Texts of expressions are Spark SQL, for Spark to read.
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
    """Only rows that meet a condition, which stands at `place`."""

    condition: str
    place: QueryPlace | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Selected:
    """Only these columns, each an expression that may have a name; `places` has their places."""

    columns: tuple[str, ...]
    places: tuple[QueryPlace, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Computed:
    """More columns, name to expression; one replaces a column of its name. `places` has places by
    their names in lower case.
    """

    columns: Mapping[str, str]
    places: Mapping[str, QueryPlace] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Only:
    """Only these columns, and those that other arguments of the operator name. `places` has places
    by their names in lower case.
    """

    columns: tuple[str, ...]
    places: Mapping[str, QueryPlace] = field(default_factory=dict, compare=False)


Step = Named | Where | Selected | Computed | Only


def right_event_time_name(time: str) -> str:
    """The name of the event time of a join's right rows, which left rows do not have."""
    return f"right.{time}"


@dataclass(frozen=True, slots=True)
class QueryRows:
    """What an operator reads.

    Attributes:
        table: the name of a table or view, quoted where it has to be.
        steps: what is done to its rows, in this order.
        place: where the query names the table.
    """

    table: str
    steps: tuple[Step, ...]
    place: QueryPlace = field(compare=False)

    @property
    def name(self) -> str:
        """The table's name without quotes; of a name with several parts they stay around dots."""
        return self.table[1:-1].replace("``", "`")

    def then(self, *steps: Step) -> "QueryRows":
        """The same with more steps behind."""
        return QueryRows(self.table, (*self.steps, *steps), self.place)


@dataclass(frozen=True, slots=True)
class Retention:
    """What a hint says about the retention of an input: a time to live, or the name of a policy.

    Attributes:
        ttl_ms: the time to live, 0 for never; None where the hint names a policy.
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
        rows: what it reads.
        arguments: its arguments as far as the query says them, as its Python form takes them.
        output: expressions over the operator's result, in front of the columns that idlestate
            adds; `*` is all of its own columns. None: the result as it is.
        having: a condition that rows of the result must meet.
        name: the name of the result's rows in `output` and `having`; None: they have none.
        retention: what a hint says; None without one.
        second: the second input of a join.
        second_retention: what a hint says about it.
        new_names: names that must not be columns of the input, for they would be ambiguous, and
            where the query uses them.
        places: where the query selects what is in `output`, where the two are as many.
        condition_place: where the query has the condition that is `having`.
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
        """Where the query says what the operator calls by this name; else the table it reads."""
        return self.named.get(name.lower(), self.rows.place)
