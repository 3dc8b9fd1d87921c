"""Histories side by side: how many at once, in which order, when it is enough."""

from threading import Barrier

import pytest

from tests.crash.side_by_side import suffered
from tests.patience import PATIENCE_S


class Told:
    """A history in which `landed` of its kills land, told to wait for others at a barrier."""

    def __init__(self, landed: int, barrier: Barrier) -> None:
        self.kills: list[object] = []
        self._landed = landed
        self._barrier = barrier

    def suffer(self, aims: list[str]) -> None:
        self._barrier.wait(PATIENCE_S)
        if "fail" in aims:
            raise RuntimeError("a history went wrong")
        self.kills += aims[: self._landed]


def test_kills_that_did_not_land_are_made_up_for() -> None:
    pair = Barrier(2)
    asked: list[tuple[int, int]] = []

    def begin(number: int, kills: int) -> tuple[Told, list[str]] | None:
        asked.append((number, kills))
        barrier = pair if number < 2 else Barrier(1)
        return (Told(1, barrier), ["a", "b"]) if kills < 4 else None

    histories = suffered(begin, 2)
    assert [len(each.kills) for each in histories] == [1, 1, 1, 1]
    assert asked[:2] == [(0, 0), (1, 2)]
    assert asked[-1] == (4, 4)


def test_a_history_that_fails_ends_all() -> None:
    alone = Barrier(1)
    with pytest.raises(RuntimeError, match="went wrong"):
        suffered(lambda number, kills: (Told(1, alone), ["fail"]), 1)
