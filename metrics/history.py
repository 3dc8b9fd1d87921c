"""How the state of an operator grew during the last days, which is the basis of its forecasts.

A history has one row per ten minutes of the operator's own time (event time, or the clock): the
slot, the live keys and the bytes of state. It keeps eight days, 28 kB, and can be saved, so that a
restarted process forecasts as before.
"""

from io import BytesIO
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from idlestate.backends.files.folder import Folder
from idlestate.errors import StoreError

SLOT_MS: Final = 600_000
SLOTS_AN_HOUR: Final = 6
SLOTS_A_DAY: Final = 144
DAYS: Final = 8
MAX_GAP: Final = 6 * SLOTS_AN_HOUR
"""A longer gap, in slots, starts a new history, because the values in between are unknown."""

_COLUMNS: Final = 3

Curve: TypeAlias = NDArray[np.float64]
"""One value per slot without gaps; the last one is the newest."""


class Size(NamedTuple):
    """The live keys of an operator at a time, ms since the epoch."""

    time_ms: int
    live_keys: int


class HistoryFile(NamedTuple):
    """Where the history of an operator is kept."""

    folder: Folder
    name: str


class History:
    """The size of one operator's state over time.

    Args:
        rows: `(slots, 3)` int64: slot, live keys, bytes; slots ascending.
    """

    def __init__(self, rows: NDArray[np.int64] | None = None) -> None:
        self._rows = np.empty((0, _COLUMNS), np.int64) if rows is None else rows

    def add(self, time_ms: int, live_keys: int, state_bytes: int) -> bool:
        """Take the size at a time, ms since the epoch; the last one of a slot counts.

        A time before the newest slot is ignored.

        Returns:
            Whether this is the first size of its slot.
        """
        row = np.array([[time_ms // SLOT_MS, live_keys, state_bytes]], np.int64)
        newest = self._rows[-1, 0] if len(self._rows) else -1
        if row[0, 0] < newest:
            return False
        is_new = bool(row[0, 0] > newest)
        rows = np.concatenate([self._rows if is_new else self._rows[:-1], row])
        self._rows = rows[rows[:, 0] >= row[0, 0] - DAYS * SLOTS_A_DAY]
        return is_new

    def curves(self, settling_ms: int = 0) -> tuple[Curve, Curve]:
        """Live keys and bytes since the last long gap, with short gaps interpolated.

        Args:
            settling_ms: how long a new operator fills up; that part is left out.
        """
        slots = self._rows[:, 0]
        gaps = np.flatnonzero(np.diff(slots) > MAX_GAP)
        rows = self._rows[gaps[-1] + 1 :] if len(gaps) else self._rows
        if not len(rows):
            return np.empty(0), np.empty(0)
        first = int(rows[0, 0]) + -(-settling_ms // SLOT_MS)
        at = np.arange(first, rows[-1, 0] + 1)
        return np.interp(at, rows[:, 0], rows[:, 1]), np.interp(at, rows[:, 0], rows[:, 2])

    def sizes(self) -> list[Size]:
        """The live keys of all slots, oldest first."""
        return [Size(slot * SLOT_MS, keys) for slot, keys, _ in self._rows.tolist()]

    def save(self, file: HistoryFile) -> None:
        """Write the history into a file, atomically.

        Raises:
            OSError: the disk is full, or a store elsewhere cannot be reached.
        """
        data = BytesIO()
        np.save(data, self._rows, allow_pickle=False)
        file.folder.replace(file.name, data.getvalue())

    @classmethod
    def load(cls, file: HistoryFile, until_ms: int) -> "History":
        """The history in a file up to a time, after which it may have been rolled back.

        It is empty if the file is missing or damaged.

        Raises:
            StoreError: a store elsewhere cannot be reached.
        """
        try:
            rows = np.load(BytesIO(file.folder.read(file.name)), allow_pickle=False)
        except StoreError:
            raise
        except (OSError, ValueError, EOFError):
            return cls()
        is_whole = rows.dtype == np.int64 and rows.ndim == 2 and rows.shape[1] == _COLUMNS
        if not is_whole or (np.diff(rows[:, 0]) <= 0).any():
            return cls()
        return cls(rows[rows[:, 0] <= until_ms // SLOT_MS])
