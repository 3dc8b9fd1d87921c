"""What an onlooker sees of a running query: memory of its processes, files and bytes it keeps."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tests.crash.processes import PROC, Process, processes

SPARK = "org.apache.spark"
WORKERS = re.compile(r"pyspark\.daemon|pipeline\.worker_daemon")
"""Spark's daemon, or ours, from which Python workers are forked."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sample:
    """A moment of the run. Memory is the proportional share of each process, in bytes: a page that
    several have is divided among them."""

    at_s: float
    """Unix time."""
    disk_bytes: int
    files: int
    jvm: int
    workers: int
    """All Python workers and their daemon."""
    driver: int
    """The Python process that started the query."""
    worker_count: int
    own_s: float
    """Processor seconds of the run so far."""
    busy_s: float
    """The same of the whole machine."""


def sample(at_s: float, root: int, checkpoint: Path) -> Sample:
    """Look at a process, everything below it, and a checkpoint.

    Args:
        at_s: the time now.
        root: the process that started the query.
        checkpoint: its folder; files that vanish meanwhile count as gone.
    """
    below = family(root)
    spark = {one.pid: one for one in below if one.pid != root and SPARK in one.command}
    # A JVM's child is a copy of it for as long as it takes to become the `chmod` it is to be.
    jvms = [one for one in spark.values() if one.parent not in spark]
    workers = [one for one in below if WORKERS.search(one.command)]
    sizes = file_sizes(checkpoint)
    return Sample(
        at_s=at_s,
        disk_bytes=sum(sizes),
        files=len(sizes),
        jvm=sum(map(proportional_bytes, jvms)),
        workers=sum(map(proportional_bytes, workers)),
        driver=sum(proportional_bytes(one) for one in below if one.pid == root),
        worker_count=len(workers),
        own_s=sum(map(processor_s, below)),
        busy_s=busy_s(),
    )


def family(root: int) -> list[Process]:
    """A process and everything below it."""
    everything = processes()
    found = [everything[root]] if root in everything else []
    for parent in found:  # grows as it goes
        found += [one for one in everything.values() if one.parent == parent.pid]
    return found


def proportional_bytes(process: Process) -> int:
    """Its memory, pages shared with others divided among them; 0 when it has ended."""
    try:
        lines = (PROC / str(process.pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def processor_s(process: Process) -> float:
    """Processor seconds of a process and of its children that ended; 0 when it has ended."""
    try:
        stat = (PROC / str(process.pid) / "stat").read_text()
    except OSError:
        return 0
    # Fields 14 to 17 of proc(5); the name, in brackets, is the second.
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) / TICKS


def busy_s() -> float:
    """Processor seconds of everything that ran on this machine since it started."""
    user, nice, system, _, _, *rest = map(
        int, (PROC / "stat").read_text().split("\n")[0].split()[1:]
    )
    return (user + nice + system + sum(rest[:3])) / TICKS


def file_sizes(folder: Path) -> list[int]:
    """The size of every file below a folder."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                found.append((Path(place) / name).stat().st_size)
            except FileNotFoundError:
                continue
    return found
