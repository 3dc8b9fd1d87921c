"""What an onlooker sees of a running query: memory of its processes, files and bytes it keeps."""

import os
from dataclasses import dataclass
from pathlib import Path

from tests.crash.processes import PROC, Process, processes


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


def sample(at_s: float, root: int, checkpoint: Path) -> Sample:
    """Look at a process, everything below it, and a checkpoint.

    Args:
        at_s: the time now.
        root: the process that started the query.
        checkpoint: its folder; files that vanish meanwhile count as gone.
    """
    below = family(root)
    jvms = [one for one in below if one.pid != root and "org.apache.spark" in one.command]
    workers = [one for one in below if "pyspark.daemon" in one.command]
    sizes = file_sizes(checkpoint)
    return Sample(
        at_s=at_s,
        disk_bytes=sum(sizes),
        files=len(sizes),
        jvm=sum(map(proportional_bytes, jvms)),
        workers=sum(map(proportional_bytes, workers)),
        driver=sum(proportional_bytes(one) for one in below if one.pid == root),
        worker_count=len(workers),
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
