"""Spark errors about a Python worker that died, hangs or did not start."""

import re
from typing import Final

LATE_WORKER: Final = (
    "a Python worker of Spark did not start in time, usually because the machine is overloaded"
)
_LATE_WORKER = re.compile(r"Python worker (?:failed )?to connect back")
_LOST_WORKER = "Python worker exited unexpectedly"
_SILENT_WORKER = "Python worker process terminated due to idle timeout"


def is_late_worker(text: str) -> bool:
    """Whether a Spark error says that a Python worker did not start in time.

    Spark waits 10 s for workers of a source or at the start of a query; no setting changes that.
    """
    return _LATE_WORKER.search(text) is not None


def worker_problem(text: str) -> str | None:
    """What a Spark error says about a Python worker that could not report the problem itself."""
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
