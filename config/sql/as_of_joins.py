"""As-of joins as calls of `join_asof`: FOR SYSTEM_TIME AS OF, and ASOF JOIN."""

from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.tokens import TokenType

from idlestate.config.sql.expressions import (
    Expression,
    check_name,
    named,
    no_aggregate,
    no_window,
    read_expression,
)
from idlestate.config.sql.query_plan import Computed, Only, QueryPlan, QueryRows, Where
from idlestate.config.sql.quoting import quoted
from idlestate.config.sql.select_clauses import Select
from idlestate.config.sql.sources import QuerySource, read_relation
from idlestate.config.sql.words import Words

_FORM = "write FROM a JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.key = b.key, or ASOF JOIN"
_BEFORE_JOIN = {
    *(TokenType.JOIN, TokenType.LEFT, TokenType.INNER, TokenType.ASOF, TokenType.RIGHT),
    *(TokenType.FULL, TokenType.CROSS, TokenType.NATURAL, TokenType.SEMI, TokenType.ANTI),
}


def as_of_plan(select: Select) -> tuple[QueryPlan, list[QuerySource]] | None:
    """The plan of a query with an as-of join and its two inputs; None for a query without a join.

    Raises:
        QueryError: `join_asof` cannot compute it.
    """
    joins = select.tree.args.get("joins")
    if not joins:
        return None
    words = select.source
    starts = [at for at, word in words.top_level() if word.kind in _BEFORE_JOIN]
    if len(joins) > 1 or not starts:
        raise words.refused("a query may have one join", _FORM)
    return _Join(select, joins[0], starts[0]).plan()


@dataclass
class _Side:
    """An input, the name that its columns have in front, and the columns that are used."""

    source: QuerySource
    name: str
    used: dict[str, str] = field(default_factory=dict)
    """Columns by their names in lower case."""


class _Join:
    def __init__(self, select: Select, join: exp.Expression, start: int) -> None:
        words = select.source
        version = join.this.args.get("version")
        is_as_of = join.args.get("method") == "ASOF" or version is not None
        outer = join.side or "INNER"
        if not is_as_of or outer not in {"INNER", "LEFT"} or join.kind not in {"", "INNER"}:
            raise words[start:].refused("this join is not supported", _FORM)
        at = {word.kind: at for at, word in words.top_level()}
        if TokenType.ON not in at or join.args.get("on") is None:
            raise words[start:].refused("the join has no ON", _FORM)
        if select.keys is not None or select.is_distinct:
            fix = "read the joined rows in a query of its own, and group there"
            raise select.words.refused("a join cannot be grouped in the same query", fix)
        self._select = select
        self._on = words[at[TokenType.ON] + 1 :]
        self._how = outer.lower()
        probes = read_relation(words[:start], select.tree.args["from_"].this, select.hint)
        tree = join.this.copy()
        tree.set("version", None)
        versions = read_relation(words[at[TokenType.JOIN] + 1 : at[TokenType.ON]], tree, None)
        self._probes, self._versions = (self._side(each) for each in (probes, versions))
        self._keys: dict[str, str] = {}
        self._times: list[tuple[str, str | None]] = []
        self._read_condition(join.args["on"])
        if version is not None:
            self._times.append((self._column(version.expression, self._probes, self._on), None))
        if len(self._times) != 1 or not self._keys:
            raise self._on.refused("a key and the time are needed, each once", _FORM)

    def _side(self, source: QuerySource) -> _Side:
        if source.name is None:
            raise self._select.source.refused(
                "a subquery in a join has no name", "add AS and a name"
            )
        return _Side(source, source.name)

    def _column(self, tree: exp.Expression, side: _Side, words: Words) -> str:
        if not isinstance(tree, exp.Column) or tree.table.lower() != side.name or tree.db:
            fix = f"use columns such as {side.name}.key, and compute others in a subquery"
            raise words.refused(f"a column of {side.name} is expected", fix)
        return str(tree.name)

    def _read_condition(self, on: exp.Expression) -> None:
        for part in on.flatten() if isinstance(on, exp.And) else [on]:
            left, right = part.args.get("this"), part.args.get("expression")
            if isinstance(left, exp.Column) and left.table.lower() == self._versions.name:
                left, right = right, left
                is_time = isinstance(part, exp.LTE)
            else:
                is_time = isinstance(part, exp.GTE)
            if not is_time and not isinstance(part, exp.EQ):
                fix = "join by a.key = b.key AND a.ts >= b.ts; put other conditions into WHERE"
                raise self._on.refused("this condition is not supported", fix)
            probe = self._column(left, self._probes, self._on)
            version = self._column(right, self._versions, self._on)
            if is_time:
                self._times.append((probe, version))
            else:
                self._keys[probe] = version

    def plan(self) -> tuple[QueryPlan, list[QuerySource]]:
        """The plan of the join and its inputs."""
        items = [read_expression(words) for words in self._select.items]
        for item in items:
            no_window(item)
            no_aggregate(item, "a join")
        stars = [item for item in items if item.is_star]
        if stars:
            self._check_stars(items)
        condition = self._select.where
        where = None if condition is None else read_expression(condition)
        used = [*(item for item in items if not item.is_star), *([where] if where else [])]
        for expression in used:
            self._use(expression)
        output = [self._output(item) for item in items if not item.is_star]
        probes, having = self._probes.source.rows, None
        if where is not None:
            reads = {column.table.lower() for column in where.tree.find_all(exp.Column)}
            if reads <= {self._probes.name}:
                probes = probes.then(Where(where.words.text, where.words.place))
            else:
                having = self._replaced(where.words).text
        if not stars:
            own = {**{name.lower(): name for name in self._keys}, **self._probes.used}
            probes = probes.then(Only(tuple(own.values())))
        (time, version_time), columns = self._times[0], self._columns()
        arguments: dict[str, object] = {
            "on": list(self._keys),
            "how": self._how,
            "columns": [*columns],
            "event_time": time,
        }
        if version_time is not None:
            arguments["version_time"] = version_time
        plan = QueryPlan(
            "join_asof",
            probes,
            arguments,
            None if stars else tuple(output),
            having,
            versions=self._version_rows(columns),
        )
        return plan, [self._probes.source, self._versions.source]

    def _version_rows(self, columns: dict[str, str]) -> QueryRows:
        rows = self._versions.source.rows
        computed = {
            name: quoted(column)
            for name, column in {**self._keys, **columns}.items()
            if name != column
        }
        if computed:
            rows = rows.then(Computed(computed))
        return rows.then(Only((*self._keys, *columns)))

    def _columns(self) -> dict[str, str]:
        """Columns of the versions that are used: their names in the result, and their own."""
        return {self._result_name(column): column for column in self._versions.used.values()}

    def _result_name(self, column: str) -> str:
        """The name of a version's column in the result: its own, where the probes have none."""
        taken = {*self._probes.used, *(name.lower() for name in self._keys)}
        taken.add(self._times[0][0].lower())
        return f"{self._versions.name}.{column}" if column.lower() in taken else column

    def _check_stars(self, items: list[Expression]) -> None:
        first, *rest = items
        is_own = first.words.folded == (self._probes.name, ".", "*")
        if not is_own or any(not _is_plain(each, self._versions.name) for each in rest):
            fix = f"list the columns, or select {self._probes.name}.* and then columns of the other"
            raise first.words.refused("this list of columns is not supported", fix)

    def _use(self, expression: Expression) -> None:
        keys = {column.lower(): name for name, column in self._keys.items()}
        for column in expression.tree.find_all(exp.Column):
            first = column.parts[0].name.lower()
            if len(column.parts) < 2 or first not in {self._probes.name, self._versions.name}:
                what = f"{column.name} may be a column of either input"
                fix = f"put {self._probes.name}. or {self._versions.name}. in front"
                raise expression.words.at(column.name).refused(what, fix)
            name = column.parts[1].name
            if first == self._probes.name:
                self._probes.used.setdefault(name.lower(), name)
            elif name.lower() in keys:
                fix = f"select {self._probes.name}.{keys[name.lower()]}, the same where rows match"
                raise expression.words.refused("keys of the versions are not kept", fix)
            else:
                self._versions.used.setdefault(name.lower(), name)

    def _replaced(self, words: Words) -> Words:
        """The expression over the result, whose columns have no input's name in front."""
        texts = []
        folded = words.folded
        for at in range(len(words) - 2):
            if folded[at + 1] != "." or (at and folded[at - 1] == "."):
                continue
            name = words.words[at + 2].name
            if folded[at] == self._probes.name:
                texts.append((at, at + 3, quoted(name)))
            elif folded[at] == self._versions.name:
                texts.append((at, at + 3, quoted(self._result_name(name))))
        return words.replaced(texts)

    def _output(self, item: Expression) -> str:
        column = item.words.words[-1].name if isinstance(item.tree, exp.Column) else None
        name = item.alias or column or item.words.text.replace("`", "")
        check_name(name, item.words)
        return named(self._replaced(item.words).text, name)


def _is_plain(item: Expression, name: str) -> bool:
    return isinstance(item.tree, exp.Column) and item.tree.table.lower() == name and not item.alias
