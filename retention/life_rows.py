"""Old lives and records laid out as rows, one sequence per key."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.retention.rules import Times

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LifeLayout:
    """Rows of old lives and records, with the life that each row would start."""

    source: Rows
    starts: Rows
    stops: Rows
    key: Rows
    t_ms: Times
    write_ms: Times
    created_ms: Times
    fixed_end_ms: Times | None
    """The end that later accesses cannot move; None if no rule sets one."""
    cleanup_ms: Times
    arm_from_ms: Times
    """`cleanup_ms`, or `NEVER_MS` if every access arms."""
    is_old: Flags
    is_write: Flags
    next_write: Rows
    """The first write at or after a row, of any key; the number of rows if there is none."""

    def pick(self, picked: Rows, keys: Flags) -> "LifeLayout":
        """The layout of some of the keys."""
        sizes = (self.stops - self.starts)[keys]
        stops = np.cumsum(sizes)
        is_write = self.is_write[picked]
        return LifeLayout(
            self.source[picked],
            stops - sizes,
            stops,
            np.repeat(np.arange(len(sizes)), sizes),
            self.t_ms[picked],
            self.write_ms[picked],
            self.created_ms[picked],
            None if self.fixed_end_ms is None else self.fixed_end_ms[picked],
            self.cleanup_ms[picked],
            self.arm_from_ms[picked],
            self.is_old[picked],
            is_write,
            next_true(is_write),
        )


def next_true(flags: Flags) -> Rows:
    """For each position 0..n, the first true position at or after it; n if there is none."""
    n = len(flags)
    positions = np.append(np.where(flags, np.arange(n), n), n)
    return np.minimum.accumulate(positions[::-1])[::-1]
