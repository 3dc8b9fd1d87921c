"""ROWS and RANGE in OVER, as arguments of `over`."""

from sqlglot import exp

from idlestate.config.sql.aggregate_text import MOST_ROWS
from idlestate.config.sql.expressions import Expression
from idlestate.config.sql.time_spans import interval_text, read_span
from idlestate.config.sql.words import Words

_FORM = (
    "write ROWS BETWEEN 9 PRECEDING AND CURRENT ROW, or RANGE BETWEEN INTERVAL 1 HOUR PRECEDING "
    "AND CURRENT ROW"
)


def read_frame(item: Expression) -> dict[str, object]:
    """The arguments for a frame; empty for the default frame of OVER.

    Raises:
        QueryError: it is not supported.
    """
    spec = item.tree.args.get("spec")
    if not spec:
        return {}
    kind, start = str(spec.args.get("kind")), spec.args.get("start")
    folded = item.words.folded
    words = item.words[len(folded) - 1 - folded[::-1].index(kind.lower()) : -1]
    if kind not in {"ROWS", "RANGE"}:
        raise words.refused(f"{kind} is not supported", _FORM)
    if spec.args.get("end") not in {None, "CURRENT ROW"} or spec.args.get("exclude"):
        raise words.refused("a frame has to end with the current row", _FORM)
    if start == "CURRENT ROW":
        start = exp.Literal.number(0)
    elif spec.args.get("start_side") != "PRECEDING":
        raise words.refused("this frame is not supported", _FORM)
    if kind == "ROWS":
        return {"rows": "unbounded" if start == "UNBOUNDED" else _rows(start, words)}
    if start == "UNBOUNDED":
        return {}
    ordered = item.tree.args["order"].expressions
    if len(ordered) > 1:
        fix = "order by the event time alone, or use ROWS"
        raise words.refused("RANGE with a span of time takes one column in ORDER BY", fix)
    return {"range": _span(start, words)}


def _rows(start: object, words: Words) -> int:
    if not isinstance(start, exp.Literal) or start.is_string or not start.name.isdecimal():
        raise words.refused("ROWS takes a whole number", _FORM)
    rows = 1 + int(start.name[:18])
    if rows > MOST_ROWS:
        raise words.refused(f"a frame has at most {MOST_ROWS} rows", "use fewer, or RANGE")
    return rows


def _span(start: object, words: Words) -> str:
    if isinstance(start, exp.Literal) and start.name == "0":
        return "0s"
    text = interval_text(start)
    if text is None:
        raise words.refused("RANGE takes a span of time", _FORM)
    return read_span(text, words)
