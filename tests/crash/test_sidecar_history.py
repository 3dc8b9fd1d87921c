"""Which kills count: those that ended something, and as in flight those that found a batch open."""

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.crash import sidecar_history
from tests.crash.crash_input import CrashInput
from tests.crash.sidecar_history import SidecarHistory, Victim

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
