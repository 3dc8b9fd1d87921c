"""The scheduler: a job that fails or is slow costs nobody else theirs."""

import threading
from collections.abc import Iterator

import pytest

from idlestate.sidecar.protocol.errors import DiskFullError
from idlestate.sidecar.server.job_scheduler import Scheduler
from tests.patience import PATIENCE_S


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler()
    yield made
    made.stop()


class Counted:
    """A job that tells how often it ran."""

    def __init__(self, *, fails: bool = False) -> None:
        self.count = 0
        self._fails = fails
        self._happened = threading.Condition()

    def __call__(self) -> None:
        with self._happened:
            self.count += 1
            self._happened.notify_all()
        if self._fails:
            raise ValueError("on purpose")

    def wait(self, count: int) -> bool:
        with self._happened:
            return self._happened.wait_for(lambda: self.count >= count, PATIENCE_S)


def test_a_job_that_fails_is_counted_and_runs_again(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    failing, good = Counted(fails=True), Counted()
    scheduler.add("failing", 10, failing)
    scheduler.add("good", 10, good)
    scheduler.start()
    assert failing.wait(3)
    assert good.wait(3)
    assert scheduler.troubles["error"] >= 2
    assert "on purpose" in caplog.text


def test_a_slow_sweep_keeps_nobody_else_waiting_and_never_overlaps(scheduler: Scheduler) -> None:
    good, running, most, go_on = Counted(), [0], [0], threading.Event()

    def slow() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        go_on.wait(PATIENCE_S)
        running[0] -= 1

    scheduler.add("slow", 10, slow, pool="sweep")
    scheduler.add("good", 10, good)
    scheduler.start()
    assert good.wait(10)
    assert most[0] == 1
    assert scheduler.troubles["overlapped"] > 0
    go_on.set()


def test_stopping_waits_for_the_job_that_runs_and_starts_no_other(scheduler: Scheduler) -> None:
    began, ended = threading.Event(), []

    def job() -> None:
        began.set()
        scheduler.stopping.wait(PATIENCE_S)
        ended.append(True)

    scheduler.add("job", 10, job, pool="sweep")
    scheduler.start()
    assert began.wait(PATIENCE_S)
    scheduler.stop()
    assert ended == [True]


def test_intervals_begin_anew_when_the_clock_was_set(scheduler: Scheduler) -> None:
    job = Counted()
    scheduler.add("job", 20, job)
    scheduler.start()
    assert job.wait(1)
    scheduler.realign()
    assert job.wait(job.count + 2)


def test_what_stands_in_a_jobs_way_is_told_once_in_a_line_until_the_job_gets_on(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk may stay full for days."""
    ways: Iterator[str] = iter(["full"] * 3 + [""] + ["full"] * 2 + ["gone"] * 2)
    over = threading.Event()

    def executor() -> None:
        way = next(ways, None)
        if way is None:
            over.set()
        elif way:
            raise DiskFullError(f"the disk is {way}")

    scheduler.add("job", 5, executor)
    scheduler.start()
    assert over.wait(PATIENCE_S)
    scheduler.stop()
    told = [f"job job failed: the disk is {way}" for way in ("full", "full", "gone")]
    assert [each.getMessage() for each in caplog.records] == told
    assert "Traceback" not in caplog.text
    assert scheduler.troubles["error"] == 7
