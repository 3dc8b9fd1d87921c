"""The history of an operator's size: one row per slot, bounded, kept over a restart."""

from pathlib import Path

import numpy as np
import pytest

from idlestate.backends.files.folder import Folder
from idlestate.metrics.history import (
    DAYS,
    MAX_GAP,
    SLOT_MS,
    SLOTS_A_DAY,
    History,
    HistoryFile,
    Size,
)


def filled(*slots_and_keys: tuple[int, int]) -> History:
    history = History()
    for slot, keys in slots_and_keys:
        history.add(slot * SLOT_MS, keys, keys * 10)
    return history


def at(path: Path) -> HistoryFile:
    return HistoryFile(Folder(str(path.parent)), path.name)


def keys(history: History, settling_ms: int = 0) -> list[float]:
    return list(history.curves(settling_ms)[0])


def test_the_last_size_of_a_slot_counts() -> None:
    history = History()
    assert history.add(0, 1, 10)
    assert not history.add(SLOT_MS - 1, 2, 20)
    assert history.add(SLOT_MS, 3, 30)
    assert keys(history) == [2, 3]
    assert list(history.curves()[1]) == [20, 30]


def test_the_sizes_are_those_of_the_slots() -> None:
    assert filled((2, 5), (4, 7)).sizes() == [Size(2 * SLOT_MS, 5), Size(4 * SLOT_MS, 7)]


def test_a_time_before_the_newest_slot_is_ignored() -> None:
    history = filled((5, 1), (6, 2))
    assert not history.add(6 * SLOT_MS - 1, 99, 99)
    assert keys(history) == [1, 2]


def test_short_gaps_are_interpolated_and_a_long_one_starts_afresh() -> None:
    assert keys(filled((0, 0), (4, 40))) == [0, 10, 20, 30, 40]
    assert len(keys(filled((0, 0), (MAX_GAP, 36)))) == MAX_GAP + 1
    assert keys(filled((0, 0), (MAX_GAP + 1, 36))) == [36]


def test_what_filled_a_new_operator_is_left_out() -> None:
    history = filled((0, 0), (1, 5), (2, 7), (3, 7))
    assert keys(history, 2 * SLOT_MS) == [7, 7]
    assert keys(history, 2 * SLOT_MS + 1) == [7]
    assert keys(history, 9 * SLOT_MS) == []
    assert keys(History()) == []


def test_it_keeps_eight_days() -> None:
    history = filled(*((slot, slot) for slot in range(DAYS * SLOTS_A_DAY + 5)))
    assert keys(history)[0] == 4
    assert len(keys(history)) == DAYS * SLOTS_A_DAY + 1


def test_a_saved_history_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "history" / "u.npy"
    filled((0, 1), (1, 2)).save(at(path))
    again = History.load(at(path), 9 * SLOT_MS)
    assert keys(again) == [1, 2]
    assert again.add(2 * SLOT_MS, 3, 3)
    assert [each.name for each in path.parent.iterdir()] == ["u.npy"]


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"not an array"])
def test_a_damaged_history_starts_afresh(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "u.npy"
    assert keys(History.load(at(path), 9 * SLOT_MS)) == []
    path.write_bytes(damage)
    assert keys(History.load(at(path), 9 * SLOT_MS)) == []


@pytest.mark.parametrize("rows", [np.zeros((2, 3), np.int64), np.zeros((2, 2), np.int64), [1.5]])
def test_another_array_starts_afresh(tmp_path: Path, rows: object) -> None:
    np.save(tmp_path / "u.npy", np.asarray(rows))
    assert keys(History.load(at(tmp_path / "u.npy"), 9 * SLOT_MS)) == []
