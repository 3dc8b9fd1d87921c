"""A running `idlestate run` as a process group, its workers, and waiting for what it does.

Processes are found in /proc, so the crash suite runs on Linux.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from idlestate.service import cli
from tests.quick_jvm import JAVA_OPTIONS, quick_jvm

PROC = Path("/proc")
POLL_S = 0.005
LONGEST_PAUSE_S = 0.2
LIMIT_S = 600.0
"""How long anything may take. A start is a few seconds, but other work may share the machine."""


class StuckError(AssertionError):
    """Something did not happen in time."""


def wait_until(what: str, happened: Callable[[], bool], poll_s: float = POLL_S) -> None:
    """Poll until something happened, this often; less often if a look takes long, because what is
    waited for needs the processor too. But never so seldom that Spark removes plans of batches
    between two looks.

    Raises:
        StuckError: it did not within the limit.
    """
    ends_s = time.monotonic() + LIMIT_S
    while True:
        began_s = time.monotonic()
        if happened():
            return
        looked_s = time.monotonic()
        if looked_s > ends_s:
            raise StuckError(f"waited {LIMIT_S:.0f} s for {what}")
        pause(max(poll_s, min(10 * (looked_s - began_s), LONGEST_PAUSE_S)))


def pause(seconds: float) -> None:
    """Let the processes under test run on."""
    time.sleep(seconds)  # noqa: TID251 - what is waited for happens in other processes


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it."""

    pid: int
    parent: int
    group: int
    state: str
    command: str

    @property
    def is_busy(self) -> bool:
        """Whether it was computing, not waiting, at that moment."""
        return self.state == "R"


def processes() -> dict[int, Process]:
    """All that run now; those that ended and were not yet reaped are left out."""
    found = {}
    for folder in PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue  # it ended meanwhile
        # The name stands in brackets and may hold spaces and brackets itself.
        state, parent, group = stat.rpartition(")")[2].split()[:3]
        if state not in "ZX":
            pid = int(folder.name)
            found[pid] = Process(pid, int(parent), int(group), state, command)
    return found


def kill(pid: int) -> bool:
    """`kill -9` of one process; False when it was gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class Run:
    """One process of `idlestate run` or of a job, the leader of a process group of its own.

    Args:
        config: the configuration file.
        log: where everything goes that it prints.
        options: more words of the command line.
        job: a script that is run in place of `idlestate run`.
        submit: options of `spark-submit`, when that is to start it.
    """

    def __init__(
        self,
        config: Path,
        log: Path,
        *options: str,
        job: Path | None = None,
        submit: Sequence[str] | None = None,
    ) -> None:
        self.log = log
        words = [str(job)] if job is not None else [cli.__file__, "run"]
        if submit is not None:
            command = [str(Path(sys.executable).with_name("spark-submit")), *submit, *words]
        elif job is not None:
            command = [sys.executable, *words]
        else:
            command = [sys.executable, "-m", "idlestate.service.cli", "run"]
        command += [str(config), *options]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=config.parent,
                env={
                    **os.environ,
                    "PYSPARK_PYTHON": sys.executable,
                    "PYSPARK_DRIVER_PYTHON": sys.executable,
                    "PYTHONSAFEPATH": "1",
                    JAVA_OPTIONS: quick_jvm(),
                },
            )
        self._strays: set[int] = set()

    @property
    def pid(self) -> int:
        """The Python process, and the process group."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """`kill -9` of Python and JVM together; both are gone when this returns."""
        # At once: to look for workers takes longer than many a moment that is to be hit.
        os.killpg(self.pid, signal.SIGSTOP)
        # Workers are in groups of their own and end by themselves when their JVM is gone.
        self._strays |= {process.pid for process in self._workers_and_daemons()}
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        wait_until("the killed processes to be gone", lambda: not self._members())

    def workers(self) -> list[Process]:
        """Its Python workers: the children of Spark's worker daemon."""
        running = self._workers_and_daemons()
        pids = {process.pid for process in running}
        return [process for process in running if process.parent in pids]

    def executors(self) -> list[Process]:
        """The JVMs of its executors, where it runs on a cluster."""
        return [one for one in self._members() if "CoarseGrainedExecutorBackend" in one.command]

    def kill_jvm(self) -> None:
        """`kill -9` of the JVM alone."""
        (jvm,) = [one for one in self._members() if "org.apache.spark" in one.command]
        kill(jvm.pid)

    def wait(self, limit_s: float = LIMIT_S) -> int:
        """The exit code, once it ended by itself."""
        try:
            code = self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise StuckError(f"the run did not end in {limit_s:.0f} s:\n{self.said()}") from None
        wait_until("its JVM to be gone", lambda: not self._members())
        return code

    def end(self) -> None:
        """Leave nothing behind, however the test went."""
        if self._process.poll() is None:
            self.kill()
        wait_until("its workers to be gone", lambda: not self._strays & processes().keys())

    def said(self) -> str:
        """What it printed so far."""
        return self.log.read_text(errors="replace")

    def _members(self) -> list[Process]:
        return [process for process in processes().values() if process.group == self.pid]

    def _workers_and_daemons(self) -> list[Process]:
        everything = processes()
        ours = {pid for pid, process in everything.items() if process.group == self.pid}
        found: list[Process] = []
        more = True
        while more:
            children = [
                process
                for process in everything.values()
                if process.parent in ours and process.pid not in ours
            ]
            ours |= {process.pid for process in children}
            found += children
            more = bool(children)
        return [process for process in found if "pyspark" in process.command]
