"""Memory and processor time of a process and everything below it, read from /proc.

Where there is no /proc nothing is seen and the figures stay 0.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

_PROC = Path("/proc")
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Seen(NamedTuple):
    """One process at one moment."""

    pid: int
    is_jvm: bool
    resident_bytes: int
    processor_ms: float
    """Its own and that of its children that ended."""


@dataclass(slots=True)
class Usage:
    """Highest resident memory seen (bytes), and processor time as it went by."""

    total: int = 0
    jvm: int = 0
    python: int = 0
    """Pages that processes share count in each."""
    samples: list[tuple[float, float, float]] = field(default_factory=list)
    """Unix time in seconds; processor milliseconds of JVM and Python so far."""

    def sample(self, root: int) -> list[Seen]:
        """Look at a process and everything below it, and return what was seen."""
        seen = list(_tree(root))
        jvm = sum(each.resident_bytes for each in seen if each.is_jvm)
        python = sum(each.resident_bytes for each in seen if not each.is_jvm)
        self.total = max(self.total, jvm + python)
        self.jvm = max(self.jvm, jvm)
        self.python = max(self.python, python)
        self.samples.append(
            (
                time.time(),
                sum(each.processor_ms for each in seen if each.is_jvm),
                sum(each.processor_ms for each in seen if not each.is_jvm),
            )
        )
        return seen

    def processor_ms(self, first_s: float, stop_s: float) -> tuple[float, float]:
        """Processor milliseconds of JVM and Python between two Unix times."""
        at, jvm, python = np.array(self.samples).T
        moments = [first_s, stop_s]
        jvm_ms = np.diff(np.interp(moments, at, jvm))
        python_ms = np.diff(np.interp(moments, at, python))
        return float(jvm_ms[0]), float(python_ms[0])


def threads_ms(pid: int, names: tuple[str, ...]) -> float:
    """Processor milliseconds of the living threads of a process whose names begin so.

    The kernel keeps the first 15 bytes of a name.
    """
    spent_ms = 0.0
    for entry in _PROC.glob(f"{pid}/task/*"):
        try:
            name, fields = _stat(entry)
        except OSError:
            continue  # it ended meanwhile
        if name.startswith(names):
            spent_ms += sum(map(int, fields[11:13])) * _TICK_MS
    return spent_ms


def _stat(entry: Path) -> tuple[str, list[str]]:
    """Name of a process or thread, and the fields of proc(5) from the third on."""
    name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
    return name, rest.split()


def _tree(root: int) -> Iterator[Seen]:
    children: dict[int, list[int]] = {}
    found: dict[int, Seen] = {}
    for entry in _PROC.glob("[0-9]*"):
        try:
            name, fields = _stat(entry)
        except OSError:
            continue  # it ended meanwhile
        pid = int(entry.name)
        children.setdefault(int(fields[1]), []).append(pid)
        ticks = sum(map(int, fields[11:15]))
        found[pid] = Seen(pid, name == "java", int(fields[21]) * _PAGE, ticks * _TICK_MS)
    left = [(root, False)]
    while left:
        pid, below_jvm = left.pop()
        each = found.get(pid)
        if each is None:
            continue
        # What the JVM starts shares its memory until it is another program: that counts once.
        is_starting = below_jvm and (each.is_jvm or not _runs_python(pid))
        yield each._replace(resident_bytes=0) if is_starting else each
        left += [(child, below_jvm or each.is_jvm) for child in children.get(pid, [])]


def _runs_python(pid: int) -> bool:
    try:
        return "python" in (_PROC / str(pid) / "exe").readlink().name
    except OSError:
        return False
