"""Errors of Spark as messages for the command line."""

import contextlib
import re
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError

from idlestate.errors import IdlestateError, RefusedError, StoreError, UnavailableError
from idlestate.pipeline.spark.python_worker_errors import worker_problem
from idlestate.pipeline.spark.task_errors import plain_message, spark_says
from idlestate.service.system_errors import os_problem

_FILE = re.compile(r"while reading file (\S+?)\.?\s+(.*?)(?:SQLSTATE|Caused by|$)", re.DOTALL)
_HEADER = re.compile(
    r"^ Header(?: length)?: (.+)(?:\n |, )[Ss]chema(?: size)?: (.+)$", re.MULTILINE
)
"""Spark's comparison of the header of a CSV file with the columns: names, or numbers of them."""
_CAUSE = re.compile(r"^(?:Caused by)?: ?[\w.$]+: (.+)$", re.MULTILINE)


def plain_error(error: Exception, log: Path) -> IdlestateError:
    """The error that says what to do about an error of Spark or of its JVM.

    Args:
        error: as PySpark, Arrow or Python raised it; Spark's text may contain stack traces of both
            languages.
        log: the file that contains the whole text.
    """
    text = str(error)
    message = plain_message(text)
    if message is not None:
        return RefusedError(message)
    if "No space left on device" in text:
        return StoreError(
            "the disk is full: free some space and run the same command again; nothing is lost, "
            "the batch that failed runs again"
        )
    # These carry no message of the JVM; other kinds of Py4JError do.
    if isinstance(error, Py4JNetworkError | ConnectionError) or type(error) is Py4JError:
        return UnavailableError(
            f"Spark's JVM exited: it was killed or ran out of memory (see {log}); run the same "
            "command again, it continues from the last committed batch"
        )
    problem = worker_problem(text)
    if problem is not None:
        note(log, text)
        return UnavailableError(
            f"{problem} (see {log}); nothing is lost: run the same command again, it continues "
            "from the last committed batch"
        )
    if isinstance(error, OSError):
        return StoreError(os_problem(error))
    unread = _FILE.search(text)
    if unread:
        reason = _reason(text, unread[2] or "").rstrip(".")
        return RefusedError(
            f"{unread[1].removeprefix('file://')} cannot be read: {reason}; put a "
            "whole file of that name in its place and run the same command again, or start "
            "from scratch without it: --afresh"
        )
    note(log, text)
    return RefusedError(f"Spark failed: {_innermost(text)} (details in {log})")


def note(log: Path, text: str) -> None:
    """Append to the log if possible; the message is shown in any case."""
    with contextlib.suppress(OSError), log.open("a") as file:
        file.write(f"{text}\n")


def _reason(text: str, said: str) -> str:
    """Why a file cannot be read, by the whole text and by what it says after the file's name."""
    if header := _HEADER.search(text):
        found, expected = header.groups()
        return (
            "its header does not have the columns of the source "
            f"(found: {found}; expected: {expected})"
        )
    return " ".join(said.split()) or _innermost(text)


def _innermost(text: str) -> str:
    """The message of the root cause."""
    causes = _CAUSE.findall(text.partition("=== Streaming Query ===")[0])
    return spark_says(causes[-1] if causes else text)
