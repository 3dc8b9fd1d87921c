"""How often the processes under test are looked at."""

import itertools

import pytest

from tests.crash import processes
from tests.crash.processes import LONGEST_PAUSE_S, wait_until


@pytest.mark.parametrize(
    ("look_s", "pause_s"), [(0.0, 0.005), (0.001, 0.01), (0.01, 0.1), (1.0, LONGEST_PAUSE_S)]
)
def test_the_pause_grows_with_a_look_but_no_plan_is_missed(
    monkeypatch: pytest.MonkeyPatch, look_s: float, pause_s: float
) -> None:
    pauses: list[float] = []
    now_s = itertools.count(0.0, look_s)
    monkeypatch.setattr(processes.time, "monotonic", lambda: next(now_s))
    monkeypatch.setattr(processes, "pause", pauses.append)
    looks = iter([False, True])
    wait_until("it", lambda: next(looks), poll_s=0.005)
    assert pauses == pytest.approx([pause_s])
