"""Errors of user functions."""

import traceback
from datetime import UTC, datetime, timedelta
from typing import Any

from idlestate.errors import RefusedError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FunctionError(RefusedError):
    """A user function raised an error, or gave something that does not fit.

    The batch stops, and state is as before it. Correct the function and start the query again.
    """


def error_of(uid: str, call: str, key: Any, at_ms: int, problem: object) -> FunctionError:
    """The error of one call.

    Args:
        uid: the operator.
        call: the function and its method.
        key, at_ms: of the call.
        problem: the exception, or what is wrong in words.
    """
    text = problem
    if isinstance(problem, BaseException):
        frames = traceback.extract_tb(problem.__traceback__)
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        text = f"raised {type(problem).__name__}: {problem}{where}"
    return FunctionError(
        f"operator {uid!r}: {call} {text}, for key {key!r} at {at(at_ms)}; the batch stopped and "
        "state is as before it: correct the function and start the query again"
    )


def at(at_ms: int) -> str:
    """A time as text."""
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{at_ms} ms"
