"""Errors of tasks, of which only the text reaches the driver."""

import re
from typing import Final

from idlestate.backends.shards.own_accumulator import AccumulatorError
from idlestate.backends.shards.packet_codec import KeptPacketError

LATE_WORKER: Final = (
    "a Python worker of Spark did not start in time, usually because the machine is overloaded"
)
_LATE_WORKER = re.compile(r"Python worker (?:failed )?to connect back")
_LOST_WORKER = "Python worker exited unexpectedly"
_SILENT_WORKER = "Python worker process terminated due to idle timeout"
_MARK = "idlestate: "
_WITHOUT_OPERATOR = (AccumulatorError, KeptPacketError)
_LABEL = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")


def marked(error: Exception, uid: str | None = None) -> RuntimeError:
    """The error to raise in a task, so that its text can be found in Spark's error; with the
    operator, where that is known and the text does not name it.
    """
    where = f"operator {uid!r}: " if uid and isinstance(error, _WITHOUT_OPERATOR) else ""
    return RuntimeError(f"{_MARK}{where}{error} [end]")


def plain_message(text: str) -> str | None:
    """The text of an idlestate error inside a Spark error; None if there is none."""
    _, mark, rest = text.partition(_MARK)
    message, end, _ = rest.partition(" [end]")
    return message if mark and end else None


def is_late_worker(text: str) -> bool:
    """Whether an error of Spark says that a Python worker did not start in time.

    Spark waits 10 s for workers of a source or at the start of a query, which no setting changes.
    """
    return _LATE_WORKER.search(text) is not None


def worker_problem(text: str) -> str | None:
    """What an error of Spark says of a Python worker that could not say itself what is wrong."""
    if is_late_worker(text):
        return LATE_WORKER
    if _SILENT_WORKER in text:
        return (
            "a Python worker of Spark gave no result within spark.python.worker.idleTimeoutSeconds "
            "and was ended: its code hangs, or a batch takes longer than that"
        )
    if _LOST_WORKER in text:
        return (
            "a Python worker of Spark died: the system killed it, usually for lack of memory, or "
            "code in it crashed or called os._exit"
        )
    return None


def spark_says(text: str) -> str:
    """The first line of a Spark error without its labels; plan and stack come after it."""
    return _SQLSTATE.sub("", _LABEL.sub("", text.strip().splitlines()[0])).strip()
