"""As-of joins as calls of `join_asof`: FOR SYSTEM_TIME AS OF, and ASOF JOIN."""

from itertools import pairwise

from sqlglot import exp

from idlestate.config.sql.expressions import Expression, read_expression
from idlestate.config.sql.join_inputs import JoinInputs, Side
from idlestate.config.sql.query_plan import Computed, Only, QueryPlan, QueryRows, Where
from idlestate.config.sql.quoting import quoted
from idlestate.config.sql.select_clauses import Select
from idlestate.config.sql.sources import QuerySource
from idlestate.config.sql.words import Words

_FORM = "write FROM a JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.key = b.key, or ASOF JOIN"


def is_as_of(join: exp.Expression) -> bool:
    """Whether a join is an as-of join."""
    return join.args.get("method") == "ASOF" or join.this.args.get("version") is not None


class AsOfJoin(JoinInputs):
    """An as-of join: the first input holds the probes, the second one the versions.

    Raises:
        QueryError: `join_asof` cannot compute it.
    """

    def __init__(self, select: Select, join: exp.Expression, start: int) -> None:
        version = join.this.args.get("version")
        outer = join.side or "INNER"
        if outer not in {"INNER", "LEFT"} or join.kind not in {"", "INNER"}:
            raise select.source[start:].refused("this join is not supported", _FORM)
        super().__init__(select, join, start, _FORM)
        self._how = outer.lower()
        self._times: list[tuple[str, str | None]] = []
        self._read_condition(join.args["on"])
        if version is not None:
            time = self.column(version.expression, self.first, self._words_of_time(join))
            self._times.append((time, None))
        if len(self._times) != 1 or not self.keys:
            raise self.on.refused("a key and the time are needed, each once", _FORM)

    def _words_of_time(self, join: exp.Expression) -> Words:
        """The expression after FOR SYSTEM_TIME AS OF."""
        names = [word.folded for word in self.joined.words]
        time = self.joined[[*pairwise(names)].index(("as", "of")) + 2 :]
        if join.this.alias:
            time = time[: -2 if time.words[-2].folded == "as" else -1]
        return time

    def _read_condition(self, on: exp.Expression) -> None:
        for part in self.conditions(on):
            left, right = part.args.get("this"), part.args.get("expression")
            if isinstance(left, exp.Column) and left.table.lower() == self.second.name:
                left, right = right, left
                is_time = isinstance(part, exp.LTE)
            else:
                is_time = isinstance(part, exp.GTE)
            if not is_time and not isinstance(part, exp.EQ):
                fix = "join by a.key = b.key AND a.ts >= b.ts; put other conditions into WHERE"
                raise self.on.refused("this condition is not supported", fix)
            probe = self.column(left, self.first, self.on)
            version = self.column(right, self.second, self.on)
            if is_time:
                self._times.append((probe, version))
            else:
                self.add_key(probe, version)

    def plan(self) -> tuple[QueryPlan, list[QuerySource]]:
        """The plan of the join and its inputs."""
        items = self.items()
        stars = [item for item in items if item.is_star]
        if stars:
            self._check_stars(items)
        condition = self.select.where
        where = None if condition is None else read_expression(condition)
        used = [*(item for item in items if not item.is_star), *([where] if where else [])]
        for expression in used:
            self._use(expression)
        output = [self.output(item) for item in items if not item.is_star]
        probes, having = self.first.source.rows, None
        if where is not None:
            if self.reads(where) <= {self.first.name}:
                probes = probes.then(Where(where.words.text, where.words.place))
            else:
                having = self.replaced(where.words).text
        if not stars:
            own = {**{name.lower(): name for name in self.keys}, **self.first.used}
            probes = probes.then(Only(tuple(own.values()), self.first.places))
        (time, version_event_time), columns = self._times[0], self._columns()
        arguments: dict[str, object] = {
            "on": list(self.keys),
            "how": self._how,
            "columns": [*columns],
            "event_time": time,
        }
        if version_event_time is not None:
            arguments["version_event_time"] = version_event_time
        plan = QueryPlan(
            "join_asof",
            probes,
            arguments,
            None if stars else tuple(output),
            having,
            second=self._version_rows(columns),
            named=self.named(),
        )
        return plan, [self.first.source, self.second.source]

    def _version_rows(self, columns: dict[str, str]) -> QueryRows:
        rows = self.second.source.rows
        names = {**self.keys, **columns}
        places = self.second.places_of(names)
        computed = {name: quoted(column) for name, column in names.items() if name != column}
        if computed:
            rows = rows.then(Computed(computed, places))
        return rows.then(Only(tuple(names), places))

    def _columns(self) -> dict[str, str]:
        """The used columns of the versions: their names in the result, and their original names."""
        return {self.result_name(self.second, each): each for each in self.second.used.values()}

    def result_name(self, side: Side, column: str) -> str:
        """The name of a column in the result; a version's column keeps its name if the probes lack
        it.
        """
        if side is self.first:
            return column
        taken = {*self.first.used, *(name.lower() for name in self.keys)}
        taken.add(self._times[0][0].lower())
        return f"{self.second.name}.{column}" if column.lower() in taken else column

    def _check_stars(self, items: list[Expression]) -> None:
        first, *rest = items
        is_own = first.words.folded == (self.first.name, ".", "*")
        if not is_own or any(not _is_plain(each, self.second.name) for each in rest):
            fix = f"list the columns, or select {self.first.name}.* and then columns of the other"
            raise first.words.refused("this list of columns is not supported", fix)

    def _use(self, expression: Expression) -> None:
        keys = {column.lower(): name for name, column in self.keys.items()}
        for _, side, name in self.columns_of(expression):
            if side is self.second and name.lower() in keys:
                fix = f"select {self.first.name}.{keys[name.lower()]}, the same where rows match"
                raise expression.words.refused("keys of the versions are not kept", fix)
            side.used.setdefault(name.lower(), name)


def _is_plain(item: Expression, name: str) -> bool:
    return isinstance(item.tree, exp.Column) and item.tree.table.lower() == name and not item.alias
