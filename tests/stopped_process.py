"""Stopping a process from outside, as if it hung."""

import os
import signal
from pathlib import Path


def stop(pid: int) -> None:
    """Stop a process, and wait until all of its threads have stopped: before, it may answer."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    while not all(map(_is_stopped, tasks.iterdir())):
        os.sched_yield()


def _is_stopped(task: Path) -> bool:
    try:
        _, _, state = (task / "stat").read_text().rpartition(") ")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state[0] in "TZX"
