"""Joins of rows as calls of `join`: interval joins, and regular joins on equal keys."""

from sqlglot import exp

from idlestate.config.sql.expressions import Expression, read_expression
from idlestate.config.sql.join_inputs import JoinInputs, Side
from idlestate.config.sql.query_plan import (
    Computed,
    Only,
    QueryPlan,
    QueryRows,
    Where,
    right_event_time_name,
)
from idlestate.config.sql.quoting import quoted
from idlestate.config.sql.select_clauses import Select
from idlestate.config.sql.sources import QuerySource
from idlestate.config.sql.time_spans import interval_text, read_span
from idlestate.config.sql.words import Words
from idlestate.retention.durations import format_duration, parse_duration

_FORM = (
    "write FROM a JOIN b ON a.key = b.key, for an interval AND b.ts BETWEEN a.ts - INTERVAL '5' "
    "MINUTE AND a.ts + INTERVAL '1' HOUR"
)
_HOW = {
    **dict.fromkeys([("", ""), ("", "INNER")], "inner"),
    **{(side, kind): side.lower() for side in ("LEFT", "RIGHT", "FULL") for kind in ("", "OUTER")},
    **{(side, kind): kind.lower() for side in ("", "LEFT") for kind in ("SEMI", "ANTI")},
}
_KEY_OF = {"inner": (0, 1), "left": (0,), "right": (1,), "full": (), "semi": (0,), "anti": (0,)}
"""The inputs that provide the key columns of the result, by kind of join."""


class RowJoin(JoinInputs):
    """A join of rows.

    Raises:
        QueryError: `join` cannot compute it.
    """

    def __init__(self, select: Select, join: exp.Expression, start: int) -> None:
        how = _HOW.get((join.side, join.kind))
        if how is None or join.args.get("method"):
            raise select.source[start:].refused("this join is not supported", _FORM)
        super().__init__(select, join, start, _FORM)
        self._how = how
        self._sides = self.first, self.second
        self._times: dict[int, str] = {}
        self._bounds_ms: dict[str, int] = {}
        for part in self.conditions(join.args["on"]):
            self._read(part)
        if not self.keys:
            raise self.on.refused("no columns are compared with =", _FORM)
        if self._times:
            self._between = self._interval()

    def _read(self, part: exp.Expression) -> None:
        one, other = part.args.get("this"), part.args.get("expression")
        match part:
            case exp.EQ():
                if isinstance(one, exp.Column) and one.table.lower() == self.second.name:
                    one, other = other, one
                words = self.on
                self.add_key(
                    self.column(one, self.first, words), self.column(other, self.second, words)
                )
            case exp.Between():
                self._read_bound(one, part.args["low"])
                self._read_bound(part.args["high"], one)
            case exp.GTE():
                self._read_bound(one, other)
            case exp.LTE():
                self._read_bound(other, one)
            case _:
                fix = (
                    "compare keys with =, and times with BETWEEN, >= or <=; put the rest into WHERE"
                )
                raise self.on.refused("this condition is not supported", fix)

    def _read_bound(self, late: object, early: object) -> None:
        """Read a condition that one time is not before another."""
        (at, late_ms), (other, early_ms) = self._moved(late), self._moved(early)
        if at == other:
            raise self.on.refused("both times are of one input", self.form)
        bound, span_ms = ("low", early_ms - late_ms) if at else ("high", late_ms - early_ms)
        if bound in self._bounds_ms:
            what = f"the interval has two {'lower' if at else 'upper'} bounds"
            raise self.on.refused(what, "keep one of them")
        self._bounds_ms[bound] = span_ms

    def _moved(self, tree: object) -> tuple[int, int]:
        """The input of a time, and its offset (ms)."""
        if isinstance(tree, exp.Add | exp.Sub):
            text = interval_text(tree.expression)
            if text is None:
                what = "only an INTERVAL can be added to a time or subtracted from it"
                raise self.on.refused(what, self.form)
            span_ms = parse_duration(read_span(text, self.on))
            at, moved_ms = self._moved(tree.this.unnest())
            return at, moved_ms + (span_ms if isinstance(tree, exp.Add) else -span_ms)
        is_second = isinstance(tree, exp.Column) and tree.table.lower() == self.second.name
        time = self.column(tree, self._sides[is_second], self.on)
        if self._times.setdefault(int(is_second), time).lower() != time.lower():
            what = f"the condition uses two time columns of {self._sides[is_second].name}"
            raise self.on.refused(what, "compare one time of each input")
        return int(is_second), 0

    def _interval(self) -> tuple[str, str]:
        if len(self._bounds_ms) < 2:
            raise self.on.refused("the interval needs a lower and an upper bound", self.form)
        low_ms, high_ms = self._bounds_ms["low"], self._bounds_ms["high"]
        if low_ms > high_ms:
            raise self.on.refused("this interval is empty", "swap its bounds")
        return _signed(low_ms), _signed(high_ms)

    def plan(self) -> tuple[QueryPlan, list[QuerySource]]:
        """The plan of the join and its inputs."""
        items = self.items()
        is_whole = self._is_whole(items)
        condition = self.select.where
        where = None if condition is None else read_expression(condition)
        for expression in [*([] if is_whole else items), *([where] if where else [])]:
            self._use(expression)
        left, having = self.first.source.rows, None
        if where is not None:
            is_of_left = self.reads(where) <= {self.first.name}
            if is_of_left and self._how not in ("right", "full"):
                left = left.then(Where(where.words.text, where.words.place))
            else:
                having = self.replaced(where.words).text
        output = None if is_whole else tuple(self.output(item) for item in items)
        if not is_whole:
            own = {**{name.lower(): name for name in self.keys}, **self.first.used}
            left = left.then(Only(tuple(own.values()), self.first.places))
        arguments: dict[str, object] = {"on": list(self.keys), "how": self._how}
        if self._times:
            arguments["event_time"], arguments["right_event_time"] = self._times[0], self._times[1]
            arguments["between"] = self._between
        named = self.named()
        if self._times:
            time = self._times[1]
            named[right_event_time_name(time).lower()] = self.second.places[time.lower()]
        plan = QueryPlan(
            "join",
            left,
            arguments,
            output,
            having,
            second=self._right_rows(),
            named=named,
        )
        return plan, [self.first.source, self.second.source]

    def _right_rows(self) -> QueryRows:
        names = {self.result_name(self.second, each): each for each in self.second.used.values()}
        names = {**self.keys, **names}
        places = self.second.places_of(names)
        computed = {name: quoted(column) for name, column in names.items() if name != column}
        rows = self.second.source.rows
        if computed:
            rows = rows.then(Computed(computed, places))
        return rows.then(Only(tuple(names), places))

    def _is_whole(self, items: list[Expression]) -> bool:
        """Whether complete left rows are selected."""
        stars = [item for item in items if item.is_star]
        if not stars:
            return False
        is_own = stars[0].words.folded in (("*",), (self.first.name, ".", "*"))
        if len(items) == 1 and is_own and self._how in ("semi", "anti"):
            return True
        raise stars[0].words.refused("* is not supported in a join", "list the columns")

    def result_name(self, side: Side, column: str) -> str:
        """The name of a column in the result; right columns have their input's name as a prefix,
        because only Spark knows the other columns.
        """
        key = self._key(side, column)
        if key is not None:
            return key
        return column if side is self.first else f"{side.name}.{column}"

    def _key(self, side: Side, column: str) -> str | None:
        """The key that a column is."""
        at = self._sides.index(side)
        pairs = {pair[at].lower(): pair[0] for pair in self.keys.items()}
        return pairs.get(column.lower())

    def replaced(self, words: Words) -> Words:
        """See `JoinInputs`; in a full join, `coalesce(a.key, b.key)` is also the key."""
        texts = []
        for key, column in self.keys.items() if self._how == "full" else ():
            names = (self.first.name, key.lower()), (self.second.name, column.lower())
            for (a, k), (b, j) in (names, names[::-1]):
                call = ("coalesce", "(", a, ".", k, ",", b, ".", j, ")")
                n = len(call)
                starts = range(len(words) - n + 1)
                found = [at for at in starts if words.folded[at : at + n] == call]
                texts += [(at, at + n, quoted(key)) for at in found]
        return super().replaced(words.replaced(sorted(texts)))

    def _is_merged(self, column: exp.Column) -> bool:
        """Whether a column of a full join is in `coalesce(a.key, b.key)`."""
        call = column.parent
        if self._how != "full" or not isinstance(call, exp.Coalesce):
            return False
        parts = [call.this, *call.expressions]
        if len(parts) != 2 or not all(isinstance(each, exp.Column) for each in parts):
            return False
        names = {each.table.lower(): each.name.lower() for each in parts}
        return any(
            names == {self.first.name: key.lower(), self.second.name: own.lower()}
            for key, own in self.keys.items()
        )

    def _use(self, expression: Expression) -> None:
        for column, side, name in self.columns_of(expression):
            if self._is_merged(column):
                continue
            at = self._sides.index(side)
            if at and self._how in ("semi", "anti"):
                fix = f"use columns of {self.first.name}, or a JOIN"
                what = f"the result has no columns of {side.name}, by {self._how.upper()} JOIN"
                raise expression.words.refused(what, fix)
            if self._key(side, name) is None:
                side.used.setdefault(name.lower(), name)
            elif at not in _KEY_OF[self._how]:
                what, fix = self._key_fix(side, name)
                if self._how == "left" and _is_null_test(column):
                    fix = "for left rows without a match, write LEFT ANTI JOIN"
                raise expression.words.refused(what, fix)

    def _key_fix(self, side: Side, name: str) -> tuple[str, str]:
        what = f"{side.name}.{name} is not kept, as it is null or the key of the other input"
        if self._how == "full":
            one, other = self._pair(side, name)
            return what, f"write coalesce({one}, {other})"
        pair = self._pair(side, name)
        return what, f"use {pair[side is self.first]}"

    def _pair(self, side: Side, name: str) -> tuple[str, str]:
        key = self._key(side, name) or name
        return f"{self.first.name}.{key}", f"{self.second.name}.{self.keys[key]}"


def _is_null_test(column: exp.Column) -> bool:
    test = column.parent
    return isinstance(test, exp.Is) and isinstance(test.expression, exp.Null)


def _signed(span_ms: int) -> str:
    return f"{'-' if span_ms < 0 else ''}{format_duration(abs(span_ms))}"
