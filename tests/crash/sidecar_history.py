"""A query with its state in a sidecar, and kills of everything that takes part.

SIDECAR  its sidecar alone: who started it starts it again, tasks wait for it
WORKER   one worker of a sidecar that has several: the sidecar starts it again
DRIVER   Python and JVM: a private sidecar notices and ends; the next start finds what was prepared
ALL      Python, JVM and sidecar at once
TASK     one Python worker of Spark, with its tasks

The driver starts a private sidecar, which keeps its tables itself. A served one has two workers and
is started by the history, as by systemd: it outlives the driver.
"""

import random
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import monotonic

from tests.crash.checkpoint_view import Planned
from tests.crash.crash_input import CrashInput, write_config
from tests.crash.history import OWN_JOB, RETAIN
from tests.crash.processes import (
    POLL_S,
    Process,
    Run,
    StuckError,
    kill,
    pause,
    processes,
    wait_until,
)
from tests.crash.query_runs import QueryRuns
from tests.crash.served_sidecar import ServedSidecar

NOTE_S = 0.2
SERVE = "-m idlestate.sidecar "


class Victim(StrEnum):
    SIDECAR = "sidecar"
    WORKER = "worker"
    DRIVER = "driver"
    ALL = "all"
    TASK = "task"


@dataclass(frozen=True)
class SidecarKill:
    """A kill that landed."""

    victim: Victim
    batch_id: int
    in_flight: bool

    def __str__(self) -> str:
        where = "in flight" if self.in_flight else "between batches"
        return f"{self.victim:<7} batch {self.batch_id:>3}, {where}"


@dataclass
class SidecarHistory(QueryRuns):
    """One checkpoint with its sinks, and all that happened to it."""

    place: Path
    given: CrashInput
    backend: str
    draw: random.Random
    is_served: bool = False
    operator: str = RETAIN
    kills: list[SidecarKill] = field(default_factory=list)
    plans: dict[int, Planned] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._prepare(write_config(self.place, self.given.folder, "event", self.backend))
        self._served = ServedSidecar(self.place, self.backend) if self.is_served else None
        if self.operator != RETAIN:
            self._job, self._options = OWN_JOB, ("function", self.operator)
        if self._served is not None:
            self._options = ("--sidecar", f"unix:{self._served.data_socket}")

    def suffer(self, victims: Sequence[Victim]) -> None:
        """Start, kill and start again, then let the query end by itself."""
        with ExitStack() as stack:
            if self._served is not None:
                stack.callback(self._served.start().stop)
            stack.callback(self._leave_nothing)
            for victim in victims:
                if self.view.planned + 1 < self.given.last_batch:
                    self._strike(victim)
            while (code := self._end()) != 0:
                # A worker's or sidecar's death may end the query; then it is started again.
                if self._starts > len(victims) + 2:
                    raise StuckError(f"the run failed with {code}:\n{self._running().said()}")
                self._run = None

    def _leave_nothing(self) -> None:
        if self._run is not None:
            self._run.end()

    def _end(self) -> int:
        """The exit code of the run, which is left alone; Spark removes the older of its logs."""
        run = self._running()
        while run.code is None:
            self._note_plans()
            pause(NOTE_S)
        self._note_plans()
        return run.wait()

    def _strike(self, victim: Victim) -> None:
        target = min(self.view.planned + self.draw.choice((1, 1, 2)), self.given.last_batch - 1)
        wait_until(f"batch {target}", lambda: self._follow(target))
        ends_s = monotonic() + self.draw.random() * self.view.typical_s(set())
        while monotonic() < ends_s and not self.view.has_committed(target):
            pause(POLL_S)
        run = self._running()
        sidecars = self._sidecars(run)
        batch_id, in_flight = self.view.planned, self.view.in_flight
        hit = False
        if victim in (Victim.SIDECAR, Victim.ALL):
            hit = sum(kill(each.pid) for each in sidecars) > 0
        if victim is Victim.WORKER:
            hit = self._kill_one(self._workers(sidecars))
        if victim in (Victim.DRIVER, Victim.ALL):
            run.kill()
            self._run, hit = None, True
            batch_id, in_flight = self.view.planned, self.view.in_flight
        if victim is Victim.TASK:
            hit = self._kill_one(run.workers())
        if self._served is not None and victim in (Victim.SIDECAR, Victim.ALL):
            self._served.stop(signal.SIGKILL)
            self._served.start()
        if hit:  # else it was just being started again, and another kill makes up for this one
            in_flight = in_flight and not self.view.has_committed(batch_id)
            self.kills.append(SidecarKill(victim, batch_id, in_flight))
            print(f"  {self.place.name}: {self.kills[-1]}", flush=True)
        self._note_plans()

    def _follow(self, target: int) -> bool:
        """Whether a batch was planned; a run that has ended is started again."""
        self._running()
        return self.view.planned >= target

    def _running(self) -> Run:
        if self._run is None or self._run.code not in (None, 0):
            return self._start()
        return self._run

    def _kill_one(self, victims: Sequence[Process]) -> bool:
        return bool(victims) and kill(self.draw.choice(victims).pid)

    def _sidecars(self, run: Run) -> list[Process]:
        every = processes()
        if self._served is not None:
            return [each for each in every.values() if each.pid == self._served.pid]
        return [each for each in every.values() if each.parent == run.pid and SERVE in each.command]

    def _workers(self, sidecars: Sequence[Process]) -> list[Process]:
        pids = {each.pid for each in sidecars}
        return [each for each in processes().values() if each.parent in pids]
