"""The schedule of background jobs, with APScheduler.

APScheduler's defaults drop work: a job that is a second late is skipped, a full pool loses jobs,
and intervals follow the wall clock, so that a clock set back by an hour stops them for an hour.
Here a late job runs once, sweeps have their own pool, every job checks a stop flag, and `realign`
reschedules all jobs after the clock was set.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC
from typing import Any

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from idlestate.sidecar.protocol.errors import SidecarError

log = logging.getLogger(__name__)
_TROUBLES = {
    EVENT_JOB_ERROR: "error",
    EVENT_JOB_MISSED: "missed",
    EVENT_JOB_MAX_INSTANCES: "overlapped",
}


class Scheduler:
    """Runs jobs at intervals from `start` until `stop`.

    Attributes:
        stopping: set when jobs should end.
        troubles: how often a job failed, was late, or was still running, by kind.
    """

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.troubles: Counter[str] = Counter(dict.fromkeys(_TROUBLES.values(), 0))
        self._every_ms: dict[str, int] = {}
        self._told: dict[str, str] = {}
        """The current problem of each job, so that one that lasts for days is logged once."""
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(2), "sweep": ThreadPoolExecutor(1)},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )
        self._scheduler.add_listener(self._note, sum(_TROUBLES))

    def add(self, name: str, every_ms: int, job: Callable[[], None], pool: str = "default") -> None:
        """Add a job, before or after the start."""
        self._every_ms[name] = every_ms
        self._scheduler.add_job(
            self._guarded, _interval(every_ms), args=[name, job], id=name, executor=pool
        )

    def start(self) -> None:
        """Begin."""
        # The metrics count late jobs; APScheduler's log messages are not needed.
        logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
        self._scheduler.start()

    def realign(self) -> None:
        """Start every interval now, after the wall clock was set."""
        for name, every_ms in self._every_ms.items():
            self._scheduler.reschedule_job(name, trigger=_interval(every_ms))

    def stop(self) -> None:
        """End running jobs, and start no more."""
        self.stopping.set()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def _guarded(self, name: str, job: Callable[[], None]) -> None:
        if self.stopping.is_set():
            return
        try:
            job()
        except SidecarError as error:  # its text says what to do
            if self._told.get(name) != str(error):
                log.error("job %s failed: %s", name, error)
            self._told[name] = str(error)
            raise
        self._told.pop(name, None)

    def _note(self, event: Any) -> None:
        self.troubles[_TROUBLES[event.code]] += 1
        if event.code == EVENT_JOB_ERROR and not isinstance(event.exception, SidecarError):
            log.error("job %s failed: %s", event.job_id, event.exception, exc_info=event.exception)


def _interval(every_ms: int) -> IntervalTrigger:
    return IntervalTrigger(seconds=every_ms / 1000, timezone=UTC)
