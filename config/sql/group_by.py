"""GROUP BY as a call of `retain`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from idlestate.config.sql.aggregate_calls import AggregateCall, aggregate_calls, supported
from idlestate.config.sql.expressions import (
    Expression,
    ResultNames,
    check_name,
    named,
    names_of,
    no_aggregate,
    no_window,
    read_expression,
)
from idlestate.config.sql.having import check_having, without_aliases
from idlestate.config.sql.query_error import QueryPlace
from idlestate.config.sql.query_plan import Computed, QueryPlan
from idlestate.config.sql.quoting import quoted
from idlestate.config.sql.select_clauses import Select
from idlestate.config.sql.sources import QuerySource, filtered
from idlestate.config.sql.window_calls import WindowCall, read_window
from idlestate.config.sql.words import Words
from idlestate.retention.windows import WINDOW_END, WINDOW_START

_FIELDS = {"start": WINDOW_START, "end": WINDOW_END}
_STRUCT = f"named_struct('start', {WINDOW_START}, 'end', {WINDOW_END})"


@dataclass(frozen=True, slots=True)
class Key:
    """A key: a column, or the expression that computes it."""

    name: str
    words: Words
    is_column: bool

    @property
    def is_part(self) -> bool:
        """Whether it is an expression that may be part of others: a function call, or a field such
        as `user.id`.
        """
        words = self.words
        if self.is_column or len(words) < 3:
            return False
        shown = [word.shown for word in words.words]
        if len(words) % 2 and {*shown[1::2]} == {"."}:
            return True
        return shown[1] == "(" and words.closing(1) == len(words) - 1


def group_plan(select: Select, source: QuerySource) -> QueryPlan:
    """The plan of a query with GROUP BY.

    Raises:
        QueryError: `retain` cannot compute it.
    """
    grouping = _Grouping(select, source)
    output = grouping.output()
    having = grouping.having()
    window = grouping.window
    bounds = [] if window is None else [WINDOW_START, WINDOW_END]
    names = [*(key.name for key in grouping.keys), *bounds, *grouping.aggregates]
    rows = filtered(select, source.rows)
    if grouping.computed:
        rows = rows.then(Computed(grouping.computed, grouping.places))
    return QueryPlan(
        "retain",
        rows,
        {
            "key": [key.name for key in grouping.keys],
            "aggregates": {name: call.text for name, call in grouping.aggregates.items()},
            **({} if window is None else {"window": window.windows, "event_time": window.time}),
        },
        None if output == [quoted(name) for name in names] else tuple(output),
        having,
        source.name,
        new_names=grouping.new_names,
        named=grouping.named(),
    )


class _Grouping:
    def __init__(self, select: Select, source: QuerySource) -> None:
        self._select = select
        self._names = frozenset({source.name} if source.name else ())
        self.items = [read_expression(item) for item in select.items]
        self.new_names: dict[str, QueryPlace] = {}
        self.aggregates: dict[str, AggregateCall] = {}
        self.computed: dict[str, str] = {}
        self.places: dict[str, QueryPlace] = {}
        self.window: WindowCall | None = None
        found = [self._key(words) for words in select.keys or ()]
        self.keys = [key for key in found if key is not None]
        if not self.keys:
            fix = "add a column: state is kept, and expires, per key"
            raise select.words.at("group by").refused("GROUP BY has no key", fix)
        for at, key in enumerate(self.keys):
            if key.name.lower() in {other.name.lower() for other in self.keys[:at]}:
                raise key.words.refused(f"{key.name} is a key already", "remove it")
            check_name(key.name, key.words)
        self._aliases: dict[str, str] = {}
        """Lower-case names of selected columns, and their expressions over the result."""
        self._name_aggregates()

    def _key(self, words: Words) -> Key | None:
        """A key; None for a window."""
        while len(words) > 2 and words.words[0].shown == "(" and words.closing(0) == len(words) - 1:
            words = words[1:-1]
        expression = read_expression(words)
        tree = expression.tree
        if isinstance(tree, exp.Literal) and tree.is_int:
            expression = self._item(int(tree.name), words)
        column = expression.column(self._names)
        alias = column and self._aliased(column)
        if alias:
            self.new_names[str(column)] = words.place
            expression = alias
            column = expression.column(self._names)
        no_window(expression)
        no_aggregate(expression, "GROUP BY")
        if (window := read_window(expression.words, self._names)) is not None:
            if self.window is not None:
                raise words.refused("a second window", "group by one window")
            self.window = replace(window, name=alias.alias) if alias and alias.alias else window
            return None
        if column is not None:
            return Key(column, expression.words, is_column=True)
        given = [each.alias for each in self.items if each.words.folded == expression.words.folded]
        name = next(filter(None, given), None) or expression.words.text.replace("`", "")
        self.computed[name] = expression.words.text
        self.places[name.lower()] = expression.words.place
        return Key(name, expression.words, is_column=False)

    def _item(self, position: int, words: Words) -> Expression:
        if not 1 <= position <= len(self.items):
            fix = f"use 1 to {len(self.items)}, or write the column"
            raise words.refused(f"there is no column {position} in the list", fix)
        return self.items[position - 1]

    def _aliased(self, name: str) -> Expression | None:
        """The expression that only has this name; None if a column has the name."""
        folded = name.lower()
        if any((item.column(self._names) or "").lower() == folded for item in self.items):
            return None
        return self._named(name)

    def _named(self, name: str) -> Expression | None:
        """The selected expression to which the query gives this name."""
        return next(
            (each for each in self.items if (each.alias or "").lower() == name.lower()), None
        )

    def _name_aggregates(self) -> None:
        """Name the aggregates that are columns of the result as they are named there."""
        self._columns: dict[int, str] = {}
        for at, item in enumerate(self.items):
            calls = list(aggregate_calls(item.words, self._names))
            if [(call.start, call.end) for call in calls] == [(0, len(item.words))]:
                self._columns[at] = self._register(item.alias or calls[0].name, calls[0])

    def _register(self, name: str, call: AggregateCall) -> str:
        check_name(name, call.words)
        for key in self.keys:
            if key.name.lower() == name.lower():
                fix = "use another name: AS ..."
                raise call.words.refused(f"{name} is the name of a key too", fix)
        self.aggregates.setdefault(name, call)
        computed = {name.lower() for name in self.computed}
        for argument in call.arguments:
            if argument.expression is not None:
                self.computed[argument.column] = argument.expression
                self.places[argument.column.lower()] = call.words.place
            elif argument.column.lower() in computed:
                what = f"{argument.column} is an expression of the key here, and a column too"
                raise call.words.refused(what, "give the key another name: AS ...")
        return name

    def _column_of(self, call: AggregateCall) -> str:
        """The column of the result with an aggregate."""
        same = (name for name, other in self.aggregates.items() if other.text == call.text)
        return next(same, None) or self._register(call.name, call)

    def output(self) -> list[str]:
        """What the query selects, as expressions over the result of `retain`."""
        found: list[str] = []
        names = ResultNames()
        for at, item in enumerate(self.items):
            if item.is_star:
                fix = "list the keys and the aggregates"
                raise item.words.refused("* is not supported with GROUP BY", fix)
            no_window(item)
            text, name = self._selected(at, item)
            names.take(name, item.words)
            if item.alias:
                is_name = text.count("`") == 2 and text == quoted(text[1:-1])
                self._aliases.setdefault(item.alias.lower(), text if is_name else f"({text})")
            found.append(named(text, name))
        if not self.aggregates:
            fix = "add one, such as COUNT(*), or write SELECT DISTINCT"
            raise self._select.words.at("group by").refused("there is no aggregate", fix)
        return found

    def _selected(self, at: int, item: Expression) -> tuple[str, str]:
        """The text of a selected expression over the result, and its name."""
        for key in self.keys:
            column = item.column(self._names)
            if column == key.name if key.is_column else item.words.folded == key.words.folded:
                return quoted(key.name), item.name
        if (found := self._columns.get(at)) is not None:
            return quoted(found), found
        text = self.over_result(item.words)
        if text == _STRUCT and self.window is not None:
            return text, item.alias or self.window.name
        return quoted(text) if text in _FIELDS.values() else text, item.name

    def over_result(self, words: Words) -> str:
        """An expression of keys and aggregates, over the columns of the result."""
        found = self._replaced(words)
        tree = read_expression(found).tree
        for function in tree.find_all(exp.AggFunc):
            said = words.at(*names_of(function))
            name = next(iter(said.folded if len(said) == 1 else words.folded))
            fix = f"the aggregates are {supported()}"
            raise said.refused(f"unknown aggregate {name}", fix)
        known = self._known()
        for column in tree.find_all(exp.Column):
            qualifier = column.parts[0].name.lower() if len(column.parts) > 1 else None
            first = column.parts[1 if qualifier in self._names else 0]
            if first.name.lower() not in known:
                what = f"{column.name} is neither a key nor inside an aggregate"
                fix = f"add it to GROUP BY, or aggregate it with one of {supported()}"
                same = (
                    key for key in self.keys if key.words.folded[-2:] == (".", column.name.lower())
                )
                if (key := next(same, None)) is not None:
                    what = f"GROUP BY has {key.words.text}, which is not written like this"
                    fix = f"write {key.words.text} here too"
                elif (meant := self._named(first.name)) is not None:
                    what = f"{first.name} is the name of another selected expression"
                    fix = f"write the expression itself: {meant.words.text}"
                raise words.at(column.name).refused(what, fix)
        return found.text

    def named(self) -> dict[str, QueryPlace]:
        """Where the query has the columns and aggregates that `retain` knows by these names, in
        lower case.
        """
        found: dict[str, QueryPlace] = {}
        if self.window is not None:
            found |= dict.fromkeys(("window", self.window.time), self.window.words.place)
        found |= {name: call.words.place for name, call in self.aggregates.items()}
        found |= {key.name: key.words.place for key in self.keys}
        return {**self.places, **{name.lower(): place for name, place in found.items()}}

    def _known(self) -> set[str]:
        """The columns of the result, in lower case."""
        bounds = [] if self.window is None else [WINDOW_START, WINDOW_END]
        names = (*self.aggregates, *(key.name for key in self.keys), *bounds)
        return {name.lower() for name in names}

    def _replaced(self, words: Words) -> Words:
        texts = [
            (call.start, call.end, quoted(self._column_of(call)))
            for call in aggregate_calls(words, self._names)
        ]
        inside = {at for start, end, _ in texts for at in range(start, end)}
        parts = [(key.words, quoted(key.name)) for key in self.keys if key.is_part]
        if self.window is not None:
            parts.append((self.window.words, _STRUCT))
        folded = words.folded
        for part, text in parts:
            size = len(part)
            for at in range(len(words) - size + 1):
                is_whole = folded[at - 1 : at] != (".",)
                if is_whole and at not in inside and folded[at : at + size] == part.folded:
                    texts.append((at, at + size, text))
                    inside.update(range(at, at + size))
        texts += self._bounds(words, inside)
        return words.replaced(sorted(texts))

    def _bounds(self, words: Words, inside: set[int]) -> Iterator[tuple[int, int, str]]:
        """The window's column and its fields, such as `window.start`."""
        folded = (*words.folded, "", "")
        for at, word in enumerate(words.folded):
            if self.window is None or word != self.window.name.lower() or at in inside:
                continue
            if folded[at + 1] == "(":
                fix = f"write {self.window.words.text}, or {self.window.name}.start"
                raise words[at:].refused("this is not the window of GROUP BY", fix)
            if folded[at + 1] == "." and folded[at + 2] in _FIELDS:
                yield at, at + 3, _FIELDS[folded[at + 2]]
            elif folded[at - 1 : at] != (".",):
                yield at, at + 1, _STRUCT

    def having(self) -> str | None:
        """The condition that rows of the result must meet."""
        words = self._select.having
        if words is None:
            return None
        no_window(read_expression(words))
        known = self._known() | {self.window.name.lower() if self.window else ""}
        texts = {name: text for name, text in self._aliases.items() if name not in known}
        said, words = words, without_aliases(words, texts, self._names)
        text = self.over_result(words)
        functions = {name.lower(): call.function for name, call in self.aggregates.items()}
        if self.window is not None and self.window.windows.is_session:
            functions[WINDOW_END] = "max"  # grows with each row of the session
        check_having(read_expression(self._replaced(words)).tree, said, functions)
        return text
