"""Errors of user functions."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from traceback import walk_tb
from typing import Any

from idlestate.errors import RefusedError

_log = logging.getLogger("idlestate")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MESSAGE, _VALUE = 500, 200
"""The maximum length of a message and of a value, in characters."""
_ADVICE = (
    "the batch stopped and state is as before it: correct the function and start the query again"
)


class FunctionError(RefusedError):
    """A user function raised an error, or returned something that does not fit.

    The batch stops, and state is unchanged. Correct the function and start the query again.

    Attributes:
        call: the function and its method.
        key: the key of the call.
        at_ms: the time of the call.
        said: what is wrong.
    """

    call = ""
    key: Any = None
    at_ms = 0
    said = ""


def error_of(uid: str, call: str, key: Any, at_ms: int, problem: object) -> FunctionError:
    """The error of one call.

    Args:
        uid: the operator.
        call: the function and its method.
        key, at_ms: the key and time of the call.
        problem: the exception, or a description of the problem.
    """
    said = said_by(problem)
    error = FunctionError(
        f"operator {uid!r}: {call} {said}, for key {short(key)} at {at(at_ms)}; {_ADVICE}"
    )
    error.call, error.key, error.at_ms, error.said = call, key, at_ms, said
    return error


def error_in_open(uid: str, function: str, problem: BaseException) -> FunctionError:
    """The error for a function that cannot be opened."""
    return FunctionError(f"operator {uid!r}: {function}.open {said_by(problem)}; {_ADVICE}")


def log_replaced(uid: str, error: FunctionError) -> None:
    """Log the error of a batch whose calls did not fail when repeated with one key each."""
    _log.warning(
        "operator %r: %s %s; the batch was processed again, with one key per call, which did not "
        "fail and counts",
        *(uid, error.call, error.said),
    )


def said_by(problem: object) -> str:
    """The problem of a call: its description, or the error that it raised and where."""
    text = _cut(_written(str, problem), _MESSAGE)
    if not isinstance(problem, BaseException):
        return text
    # Skip frames of this package, which called the function or refused its values.
    own = f"{__name__.partition('.')[0]}."
    frames = [
        f" ({frame.f_code.co_filename}, line {line})"
        for frame, line in walk_tb(problem.__traceback__)
        if not str(frame.f_globals.get("__name__")).startswith(own)
    ]
    return f"raised {type(problem).__name__}: {text}{''.join(frames[-1:])}"


def short(value: object) -> str:
    """A value, shortened for errors."""
    return _cut(_written(repr, value), _VALUE)


def _written(by: Callable[[object], str], value: object) -> str:
    """A user's value as text, even if its own method fails."""
    try:
        return by(value)
    except Exception as error:  # noqa: BLE001 - the method is the user's
        return f"<{type(value).__name__} whose text raised {type(error).__name__}>"


def _cut(text: str, most: int) -> str:
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most - 3]}..."


def at(at_ms: int) -> str:
    """A time as text."""
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{at_ms} ms"
