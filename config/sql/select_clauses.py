"""The clauses of a SELECT; clauses that are not supported are refused."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokens import TokenType

from idlestate.config.sql.dialect import QueryDialect
from idlestate.config.sql.words import Words

_CLAUSES = (TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING)
_TAKEN = {"expressions", "from_", "where", "group", "having", "distinct", "hint"}
_WITHOUT_ORDER = "remove it, and sort where you read the rows: a changelog has no order"
_ONE_INPUT = "a query of this kind reads one table or view"
_REFUSED: dict[str, tuple[tuple[str, ...], str, str]] = {
    # By sqlglot's name of a clause: its words, what is wrong, and how to fix it.
    "order": (("order by",), "ORDER BY is not supported here", _WITHOUT_ORDER),
    "sort": (("sort by",), "SORT BY is not supported", _WITHOUT_ORDER),
    "cluster": (("cluster by",), "CLUSTER BY is not supported", _WITHOUT_ORDER),
    "distribute": (("distribute by",), "DISTRIBUTE BY is not supported", _WITHOUT_ORDER),
    "limit": (("limit", "fetch"), "LIMIT is not supported", "remove it: a stream has no end"),
    "offset": (("offset",), "OFFSET is not supported", "remove it: a stream has no order"),
    "joins": (
        ("join", "left", "right", "full", "inner", "cross", "natural", "semi", "anti", "asof", ","),
        "joins are not supported",
        _ONE_INPUT,
    ),
    "laterals": (("lateral",), "LATERAL VIEW is not supported", "use a view that contains it"),
    "qualify": (
        ("qualify",),
        "QUALIFY is not supported",
        "write SELECT * FROM (SELECT *, ROW_NUMBER() OVER (...) AS n FROM ...) WHERE n = 1",
    ),
    "windows": (("window",), "named windows are not supported", "write the window after OVER"),
    "with_": (("with",), "WITH is not supported", "use a view, or a subquery in FROM"),
    "into": (("into",), "INTO is not supported", "write the result with writeStream"),
}


_WINDOW_CALL = re.compile(r"\bwindow(?=\s*\()", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT, each clause as the words after its keyword; None for a missing clause."""

    words: Words
    hint: Words | None
    is_distinct: bool
    items: list[Words]
    source: Words
    where: Words | None
    keys: list[Words] | None
    having: Words | None
    tree: exp.Select


def read_select(words: Words, *, may_join: bool = False) -> Select:
    """Divide a query, or a subquery without its parentheses, into clauses.

    Raises:
        QueryError: it is not a SELECT, not valid SQL, or has a clause that is not supported.
    """
    words = _single_statement(words)
    tree = _parsed(words)
    taken = _TAKEN | {"joins"} if may_join else _TAKEN
    for clause in (name for name, value in tree.args.items() if value and name not in taken):
        names, what, fix = _REFUSED.get(clause, ((), f"{clause} is not supported", "remove it"))
        raise _at_top_level(words, names).refused(what, fix)
    starts = dict(_clause_starts(words))
    ends = sorted([*starts.values(), len(words)])

    def after(keyword: TokenType) -> Words | None:
        start = starts.get(keyword)
        if start is None:
            return None
        return words[start + 1 : min(end for end in ends if end > start)]

    first = 1
    hint = words[1:2] if words.words[1].kind is TokenType.HINT else None
    first += hint is not None
    distinct = tree.args.get("distinct")
    if distinct and distinct.args.get("on"):
        fix = "write SELECT DISTINCT, or ROW_NUMBER() OVER (PARTITION BY ...) = 1"
        raise words[first : first + 2].refused("DISTINCT ON is not supported", fix)
    is_distinct = bool(distinct)
    source = after(TokenType.FROM)
    if source is None or tree.args.get("from_") is None:
        raise words.refused("there is no FROM", "add FROM and the name of a table or view")
    first += words.words[first].kind in {TokenType.DISTINCT, TokenType.ALL}
    if source.words and source.words[-1].kind is TokenType.COMMA:
        raise source[len(source) - 1 :].refused("a table is missing", "remove the comma")
    keys = after(TokenType.GROUP_BY)
    select = Select(
        words,
        hint,
        is_distinct,
        words[first : starts[TokenType.FROM]].split(),
        source,
        after(TokenType.WHERE),
        keys.split() if keys else None,
        after(TokenType.HAVING),
        tree,
    )
    for part in (*select.items, *(select.keys or ())):
        if not part.words:
            raise part.refused("a column is missing", "add it, or remove the comma")
    if is_distinct and keys:
        fix = "remove DISTINCT: the rows of a key differ in their times"
        raise words.at("distinct").refused("DISTINCT is not supported with GROUP BY", fix)
    _check_group(tree, select.keys)
    if len(select.items) != len(
        tree.expressions
    ):  # x::map<a, b>, where the comma separates nothing
        raise words.refused("the list of columns cannot be read", "write CAST(... AS ...)")
    return select


def _single_statement(words: Words) -> Words:
    while words.words and words.words[-1].kind is TokenType.SEMICOLON:
        words = words[:-1]
    for at, word in words.top_level():
        if word.kind is TokenType.SEMICOLON:
            raise words[at + 1 :].refused("a second statement begins here", "pass one SELECT")
    if not words.words or words.words[0].kind is not TokenType.SELECT:
        names, what, fix = _REFUSED["with_"]
        if words.at(*names).folded == names:
            raise words.at(*names).refused(what, fix)
        raise words[:1].refused("a query begins with SELECT", "write SELECT ... FROM ...")
    if len(words) == 1:
        raise words.refused("the query ends here", "write SELECT ... FROM ...")
    return words


def _parsed(words: Words) -> exp.Select:
    tree = parsed(words, words.verbatim)
    if not isinstance(tree, exp.Select):
        names = ("union", "except", "intersect", "minus")
        what = f"{type(tree).__name__.upper()} of queries is not supported"
        fix = "use a view that contains it, or one query for each part"
        raise _at_top_level(words, names).refused(what, fix)
    return tree


def parsed(words: Words, text: str) -> exp.Expression:
    """The tree of a statement, which has these words.

    Raises:
        QueryError: it is not valid SQL.
    """
    try:
        # After GROUP BY, `window(` looks like the clause WINDOW, unlike any other function.
        tree = sqlglot.parse_one(_WINDOW_CALL.sub("tumble", text), dialect=QueryDialect)
    except ParseError as error:
        raise _unreadable(words, text, error) from error
    except RecursionError as error:
        fix = "move parts of the query into views"
        raise words.refused("the query is nested too deeply", fix) from error
    except Exception as error:  # some texts crash the parser
        fix = "check the spelling, the commas and the parentheses"
        raise words.refused("this is not valid SQL", fix) from error
    return tree


def _unreadable(words: Words, text: str, error: ParseError) -> Exception:
    fix = "check the spelling, the commas and the parentheses"
    told = error.errors[0] if error.errors else {}
    line, column = told.get("line"), told.get("col")
    found = words
    if isinstance(line, int) and isinstance(column, int):
        end = words.start + sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column
        near = [at for at, word in enumerate(words.words) if word.end >= end]
        found = words[near[0] : near[0] + 1] if near else words
    return found.refused("this is not valid SQL here", fix)


def _clause_starts(words: Words) -> Iterator[tuple[TokenType, int]]:
    previous = None
    for at, word in words.top_level():
        # In `a IS DISTINCT FROM b` the word is part of a comparison.
        if word.kind in _CLAUSES and not (word.kind is TokenType.FROM and previous == "distinct"):
            yield word.kind, at
        previous = word.folded


def _at_top_level(words: Words, names: tuple[str, ...]) -> Words:
    """The word that begins a clause; refused clauses come after FROM."""
    start = min((at for _, at in _clause_starts(words)), default=0)
    for at, word in words.top_level():
        if " ".join(word.folded.split()) in names and at > start:
            return words[at : at + 1]
    return words


def _check_group(tree: exp.Select, keys: list[Words] | None) -> None:
    group = tree.args.get("group")
    if group is None or keys is None:
        return
    sets = group.find(exp.Rollup, exp.Cube, exp.GroupingSets)
    others = [name for name, value in group.args.items() if value and name != "expressions"]
    if sets or others or len(keys) != len(group.expressions):
        what = "this form of GROUP BY is not supported"
        raise keys[0].refused(what, "list the columns or expressions that make up the key")
