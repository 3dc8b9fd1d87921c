"""Errors of the operating system about a file or a connection, in words."""

import re

_ARROWS = re.compile(r"\. Detail: \[errno \d+\] ")
"""The text that Arrow writes between the failed operation and the reason."""


def os_problem(error: Exception) -> str:
    """The file and what is wrong with it, without an error number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    problem = _ARROWS.sub(": ", error.strerror)
    return f"{error.filename}: {problem}" if error.filename else problem
