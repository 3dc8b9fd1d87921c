"""Which kills count: those that ended something, and as in flight those that found a batch open."""

import os
import random
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.crash import sidecar_history
from tests.crash.crash_input import CrashInput
from tests.crash.processes import StuckError
from tests.crash.served_sidecar import ServedSidecar
from tests.crash.sidecar_history import SidecarHistory, Victim
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import wait_for

DRIVER, SIDECAR, WORKER, TASK = 1, 2, 3, 4


@pytest.fixture
def struck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[bool]]:
    """Strikes a query that is in batch 4; of each kill that counts, whether it was in flight."""
    commits: set[int] = set()

    def strike(victim: Victim, *, commits_first: bool = False, alive: bool = True) -> list[bool]:
        history: Any = SidecarHistory(
            tmp_path / "a", CrashInput(tmp_path, [[]] * 6), "heap", random.Random(1)
        )

        def kill(_: int) -> bool:
            if commits_first:
                commits.add(4)
            return alive

        run = SimpleNamespace(
            pid=DRIVER,
            code=None,
            kill=lambda: None,
            workers=lambda: [SimpleNamespace(pid=TASK)] if alive else [],
        )
        history._running = lambda: run
        history._sidecars = lambda _: [SimpleNamespace(pid=SIDECAR)]
        history._workers = lambda _: [SimpleNamespace(pid=WORKER)] if alive else []
        history.view = SimpleNamespace(
            planned=4,
            in_flight=True,
            typical_s=lambda _: 0.0,
            has_committed=commits.__contains__,
            plans=dict,
        )
        monkeypatch.setattr(sidecar_history, "kill", kill)
        history._strike(victim)
        return [each.in_flight for each in history.kills]

    return strike


@pytest.mark.parametrize("victim", Victim)
def test_a_kill_in_a_batch_counts_as_in_flight(struck: Any, victim: Victim) -> None:
    assert struck(victim) == [True]


@pytest.mark.parametrize("victim", [Victim.SIDECAR, Victim.WORKER, Victim.TASK])
def test_a_kill_that_ended_nothing_does_not_count(struck: Any, victim: Victim) -> None:
    assert struck(victim, alive=False) == []


@pytest.mark.parametrize("victim", [Victim.SIDECAR, Victim.WORKER, Victim.TASK])
def test_a_batch_that_was_committed_before_the_kill_was_not_in_flight(
    struck: Any, victim: Victim
) -> None:
    assert struck(victim, commits_first=True) == [False]


def test_a_history_that_fails_leaves_no_sidecar_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history: Any = SidecarHistory(
        tmp_path / "a", CrashInput(tmp_path, [[]] * 6), "heap", random.Random(1), is_served=True
    )

    def fail(*_: Any) -> None:
        raise StuckError

    monkeypatch.setattr(history, "_running", fail)
    history._run = SimpleNamespace(end=fail)
    with pytest.raises(StuckError):
        history.suffer([])
    assert history._served.process.poll() == 0


def test_a_served_sidecar_is_listened_to_and_ends_with_who_started_it(tmp_path: Path) -> None:
    sidecar = ServedSidecar(tmp_path, "heap")
    with ThreadPoolExecutor() as pool:
        pool.submit(sidecar.start).result()
        sidecar.file.write_text("no configuration")
        os.kill(sidecar.pid, signal.SIGHUP)
        assert wait_for(lambda: sidecar.log.exists() and sidecar.log.read_text())
    assert sidecar.process is not None
    assert sidecar.process.wait(PATIENCE_S) == -signal.SIGKILL
    sidecar.stop()
