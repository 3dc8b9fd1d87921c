"""A query's life with kills in it: where each kill is meant to land, and where it did.

DRIVER  Python and JVM, at a random moment of a batch that this process planned itself
REPLAY  the same, once a restart has written state for the batch it found unfinished
MERGE   Python and JVM, when a batch has begun to write and merge runs
REMOVAL the same, when it has begun to remove runs
WORKER  one Python worker, at a random moment of a batch
EXECUTOR the JVM of one of two executors, the same; its Python workers outlive it for a moment
SINK    Python and JVM, when a file of the sink has appeared
NOTED   the same, when the sink has a whole batch: a note of Spark's file sink, or a batch's folder
COMPACT the same, when Spark's file sink has noted a batch and all before it in one file
START   Python and JVM, as soon as a first start has touched the checkpoint
SWEEP   Python and JVM, between the last data batch and the batch without data behind it
OWED    Python and JVM, while a restart makes up for the sweep that was lost so
"""

import os
import random
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import monotonic

from tests.crash.checkpoint_view import Planned
from tests.crash.crash_input import UID, CrashInput, write_config
from tests.crash.processes import POLL_S, Run, StuckError, kill, pause, wait_until
from tests.crash.query_runs import QueryRuns

SWEEP_TRIES = 4
QUICK_POLL_S = 0.0005
INSISTING = 0.85
"""How many of the kills wait for another batch when theirs was committed too soon."""
DONE = 0
RETAINED = 3
"""Batches that Spark keeps: few, so that runs are removed from early on."""
RETAIN = "retain"
FOLDERS = "folders"
"""The sink of `idlestate run`; others are those of `own_job.py`."""
OWN_JOB = Path(__file__).with_name("own_job.py")
ONE_MACHINE, TWO_EXECUTORS = "local[2]", "local-cluster[2,1,1024]"
SETTINGS = {
    "spark.sql.streaming.minBatchesToRetain": RETAINED,
    "spark.log.level": "WARN",  # as in `idlestate run`
    # What an executor that was killed had shuffled is asked for in vain.
    "spark.shuffle.io.maxRetries": 1,
    "spark.shuffle.io.retryWait": "100ms",
}


class Aim(StrEnum):
    DRIVER = "driver"
    REPLAY = "replay"
    MERGE = "merge"
    REMOVAL = "removal"
    WORKER = "worker"
    EXECUTOR = "executor"
    SINK = "sink"
    NOTED = "noted"
    COMPACT = "compact"
    START = "start"
    SWEEP = "sweep"
    OWED = "owed"


BATCH_IN_SINK = {
    Aim.NOTED: re.compile(r"\d+(\.compact)?|batch(_id)?=\d+"),
    Aim.COMPACT: re.compile(r"\d+\.compact"),
    Aim.SINK: re.compile(r".*"),
}
"""Names of files and folders in a sink that a kill waits for."""


@dataclass(frozen=True)
class Kill:
    """A kill that landed."""

    aim: Aim
    batch_id: int
    in_flight: bool
    after_s: float

    def __str__(self) -> str:
        where = "in flight" if self.in_flight else "between batches"
        return f"{self.aim:<8} batch {self.batch_id:>3}, {self.after_s:5.2f} s into it, {where}"


@dataclass
class History(QueryRuns):
    """One checkpoint with its sinks, and all that happened to it."""

    place: Path
    given: CrashInput
    policy: str
    draw: random.Random
    master: str = ONE_MACHINE
    sink: str = FOLDERS
    operator: str = RETAIN
    kills: list[Kill] = field(default_factory=list)
    plans: dict[int, Planned] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._prepare(write_config(self.place, self.given.folder, self.policy))
        self._hurt: Run | None = None
        if self.sink != FOLDERS:
            self._job, self._options = OWN_JOB, (self.sink, self.operator)

    def suffer(self, aims: Sequence[Aim]) -> None:
        """Start, kill and start again as the aims say, then let the query end by itself."""
        try:
            for aim in aims:
                if aim is Aim.SWEEP:
                    self._kill_before_the_sweep()
                elif self._has_room or aim is Aim.OWED:
                    self._strike(aim)
            self._finish()
            self._note_plans()
        finally:
            if self._run is not None:
                self._run.end()

    @property
    def _has_room(self) -> bool:
        """Whether another kill finds a batch before the last one."""
        return self.view.planned + 1 < self.given.last_batch

    # ---- kills

    def _strike(self, aim: Aim) -> None:
        self._running()
        target, share = self._wait_for_target(aim)
        waited_s = self._wait_inside(target, share)
        insists = self.draw.random() < INSISTING
        while insists and self.view.has_committed(target) and self._has_room:
            # That batch was quicker than thought: the next one, and earlier in it.
            target, share = target + 1, share / 2
            self._until(f"batch {target}", lambda least=target: self.view.planned >= least)
            waited_s = self._wait_inside(target, share)
        if aim in {Aim.WORKER, Aim.EXECUTOR}:
            self._kill_one(aim, waited_s)
        else:
            self._note(self._kill_all(aim, waited_s))

    def _wait_for_target(self, aim: Aim) -> tuple[int, float]:
        """Wait for the batch that is to be hit; that batch, and how far into it the kill goes."""
        view, planned = self.view, self.view.planned
        if aim is Aim.START and planned < 0:
            self._until("the first start", (self.checkpoint / "metadata").exists)
            return planned, self.draw.uniform(0, 3)
        if aim is Aim.OWED:
            self._until(
                f"batch {planned} to be taken back",
                lambda: not view.has_committed(planned) or view.planned > planned,
            )
            return planned, self.draw.uniform(0, 2)
        if aim is Aim.REPLAY and view.in_flight:
            before = view.run_files(UID, planned)
            self._until(
                f"batch {planned} to run again",
                lambda: view.run_files(UID, planned) != before or view.has_committed(planned),
            )
            return planned, self.draw.uniform(0, 0.3)
        ahead = 1 if self.master == TWO_EXECUTORS else self.draw.choice((1, 1, 2))
        target = min(planned + ahead, self.given.last_batch - 1)
        self._until(f"batch {target}", lambda: view.planned >= target)
        if aim in BATCH_IN_SINK:
            self._until(f"{aim} in the sink", self._sink_grown(aim), QUICK_POLL_S)
            return view.planned, 0
        if aim is Aim.MERGE:
            self._until("a run", lambda: view.run_files(UID, target) or view.planned > target)
            return view.planned, self.draw.uniform(0, 0.05)
        if aim is Aim.REMOVAL:
            self._until("a removal", self._removal_seen())
            return view.planned, self.draw.uniform(0, 0.05)
        return target, self.draw.random()

    def _removal_seen(self) -> Callable[[], bool]:
        """Says, asked again and again, whether a file of state that was there has vanished."""
        seen: set[str] = set()

        def happened() -> bool:
            there = self.view.all_run_files(UID)
            seen.update(there)
            return len(seen) > len(there)

        return happened

    def _sink_grown(self, aim: Aim) -> Callable[[], bool]:
        """Says whether the sink has more of the names that a kill waits for."""
        before = self._in_sink(aim)
        last = self.given.last_batch - 1
        return lambda: bool(self._in_sink(aim) - before) or self.view.planned > last

    def _in_sink(self, aim: Aim) -> set[Path]:
        wanted = BATCH_IN_SINK[aim]
        return {
            Path(folder, name)
            for sink in self.out.glob("*/")
            if sink != self.checkpoint
            for folder, folders, files in os.walk(sink)
            for name in (*folders, *files)
            if wanted.fullmatch(name)
        }

    def _kill_all(self, aim: Aim, waited_s: float) -> Kill:
        self._running().kill()
        self._run = None
        # Nothing runs any more: what the logs say now is what they said at the kill.
        return Kill(aim, self.view.planned, self.view.in_flight, waited_s)

    def _kill_one(self, aim: Aim, waited_s: float) -> None:
        run = self._running()
        hit = False
        while not hit:
            if run.code is not None:
                raise StuckError(f"the run ended before its {aim} was killed:\n{run.said()}")
            batch_id, in_flight = self.view.planned, self.view.in_flight
            if aim is Aim.EXECUTOR:
                targets = run.executors()
            else:
                # Most workers wait for their next task most of the time, and nobody misses them.
                targets = [worker for worker in run.workers() if worker.is_busy]
            hit = bool(targets) and kill(self.draw.choice(targets).pid)
        in_flight = in_flight and not self.view.has_committed(batch_id)
        self._note(Kill(aim, batch_id, in_flight, waited_s))
        self._hurt = run
        # The query stops, or Spark had no more need of that worker and goes on.
        wait_until(
            "the query to stop or go on",
            lambda: self._looked(run.code is not None or self.view.committed > batch_id),
        )

    def _kill_before_the_sweep(self) -> None:
        """Kill once the last data batch is committed, before the sweep behind it is planned.

        The gap is some ten milliseconds. A try that comes too late is undone: checkpoint and sinks
        are put back to what they were while nothing ran, and the query starts again from there.
        """
        last = self.given.last_batch
        if self._run is not None and self._run.code is None:
            # The query outlived its worker, and nothing may run while the folders are copied.
            self._note(self._kill_all(Aim.DRIVER, 0.0))
        kept = self.place / "kept"
        self.out.mkdir(exist_ok=True)
        shutil.copytree(self.out, kept)
        plans = dict(self.plans)
        for _ in range(SWEEP_TRIES):
            self._running()
            self._until(f"batch {last}", lambda: self.view.has_planned(last))
            committed = f"the commit of batch {last}"
            self._until(committed, lambda: self.view.has_committed(last), QUICK_POLL_S)
            struck = self._kill_all(Aim.SWEEP, 0.0)
            if self.view.planned == self.view.committed == last:
                self._note(struck)
                return
            shutil.rmtree(self.out)
            shutil.copytree(kept, self.out)
            self.plans = dict(plans)  # what was planned in vain is planned anew
        raise StuckError(f"in {SWEEP_TRIES} tries no kill landed before the final sweep")

    # ---- processes

    def _running(self) -> Run:
        if self._run is None or self._run.code is not None:
            submit = ["--master", self.master]
            submit += [
                word for each in SETTINGS.items() for word in ("--conf", "=".join(map(str, each)))
            ]
            return self._start(submit)
        return self._run

    def _finish(self) -> None:
        run = self._running()
        code = self._wait_for_end(run)
        if code != DONE and run is self._hurt:
            run = self._running()
            code = self._wait_for_end(run)
        if code != DONE:
            raise StuckError(f"the run that was left alone failed with {code}:\n{run.said()}")

    def _wait_for_end(self, run: Run) -> int | None:
        wait_until("the run to end", lambda: self._looked(run.code is not None))
        return run.code

    def _until(self, what: str, happened: Callable[[], bool], poll_s: float = POLL_S) -> None:
        """Wait for what the running process does."""
        while True:
            run = self._running()
            wait_until(
                what, lambda run=run: self._looked(happened() or run.code is not None), poll_s
            )
            if run.code is None:
                return
            if run is not self._hurt:
                raise StuckError(f"the run ended with {run.code} before {what}:\n{run.said()}")
            self._hurt = None  # the death of its worker came up late: go on with a new one

    def _wait_inside(self, batch_id: int, share: float) -> float:
        """Wait for that share of a batch, or until it is committed; how long it was."""
        began = monotonic()
        ends = began + share * self.view.typical_s({kill.batch_id for kill in self.kills})
        while monotonic() < ends and not self._looked(self.view.has_committed(batch_id)):
            pause(POLL_S)
        return monotonic() - began

    def _looked(self, happened: object) -> bool:
        """Whether something happened; on the way what is planned is noted, before Spark forgets."""
        if self.view.planned not in self.plans:
            self._note_plans()
        return bool(happened)

    def _note(self, kill: Kill) -> None:
        self.kills.append(kill)
        self._note_plans()
        print(f"  {self.place.name}: {kill}", flush=True)
