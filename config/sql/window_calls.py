"""`window(ts, '10 minutes')` and `session_window(ts, '30 minutes')` in GROUP BY."""

from dataclasses import dataclass

from idlestate.config.sql.expressions import read_expression
from idlestate.config.sql.time_spans import SPAN_FIX, read_span
from idlestate.config.sql.words import Words
from idlestate.retention.windows import WindowError, Windows, hopping, session, tumbling

_WINDOW, _SESSION = "window", "session_window"
_OTHERS = ("tumble", "hop", "cumulate", "session")


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window in GROUP BY.

    Attributes:
        words: the call.
        name: the name of its column, as in `window.start`.
        time: the event-time column.
        windows: the windows.
    """

    words: Words
    name: str
    time: str
    windows: Windows


def read_window(words: Words, qualifiers: frozenset[str]) -> WindowCall | None:
    """The window that an expression defines; None if it is something else.

    Raises:
        QueryError: the window is not supported.
    """
    name, *rest = words.folded
    if rest[:1] != ["("] or words.closing(1) != len(words) - 1:
        return None
    if name in _OTHERS:
        fix = "use window(ts, '10 minutes') or session_window(ts, '30 minutes')"
        raise words.refused(f"{name}() is not supported", fix)
    if name not in (_WINDOW, _SESSION):
        return None
    time, *spans = words[2:-1].split()
    column = read_expression(time).column(qualifiers)
    if column is None:
        raise time.refused("the time of a window is a column", "compute it in a subquery in FROM")
    if not 1 <= len(spans) <= (2 if name == _WINDOW else 1):
        fix = "write window(ts, '1 hour'[, '10 minutes']) or session_window(ts, '30 minutes')"
        raise words.refused("this form is not supported", fix)
    texts = [_duration(span) for span in spans]
    try:
        if name == _SESSION:
            windows = session(texts[0])
        else:
            windows = tumbling(texts[0]) if len(texts) == 1 else hopping(texts[0], texts[1])
    except WindowError as error:
        raise words.refused(str(error), "correct the spans") from error
    return WindowCall(words, name, column, windows)


def _duration(span: Words) -> str:
    """A span such as '10 minutes', as Spark reads it, or '10m'."""
    if len(span) != 1 or not span.words[0].is_text:
        raise span.refused("this is not a span of time", SPAN_FIX)
    return read_span(span.words[0].name, span)
