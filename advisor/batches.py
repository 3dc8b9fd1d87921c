"""Batches of a job: the batch of each event, and the watermark of each batch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.advisor.window_ladder import span_ms
from idlestate.errors import RefusedError
from idlestate.retention.durations import Duration
from idlestate.retention.rules import NEVER_MS, Times

Ints = npt.NDArray[np.int64]
BatchesLike = int | Duration | Sequence[int]
"""Rows per batch, or event time per batch (`5m`), or the rows of each batch."""

MOST = 10_000
"""The maximum number of batches, because figures are returned for each."""


@dataclass(frozen=True, slots=True)
class JobBatches:
    """How a log is divided into batches.

    Attributes:
        rows: rows of each batch, in the order of the log; a single number applies to all.
        every_ms: otherwise, the event time that a batch spans, aligned to 1970.
    """

    rows: tuple[int, ...] = ()
    every_ms: int = 0

    @classmethod
    def of(cls, given: BatchesLike) -> "JobBatches":
        """Read the argument of a caller.

        Raises:
            RefusedError: it has none of the three forms, or contains a batch without rows.
        """
        if isinstance(given, Duration):
            every_ms = span_ms("batches", given)
            if every_ms < 1:
                raise RefusedError("batches: a batch of 0s has no events; use a span such as 5m")
            return cls(every_ms=every_ms)
        rows = tuple(given) if isinstance(given, Iterable) else (given,)
        if not rows or any(type(each) is not int or each < 1 for each in rows):
            raise RefusedError(
                f"batches {given!r} is not valid; pass rows per batch (250000), event time per "
                "batch ('5m'), or a list with the rows of each batch"
            )
        return cls(rows)

    def of_rows(self, rows: int) -> Ints:
        """The batch of each row of a log, by its place.

        Raises:
            RefusedError: the batches do not have as many rows as the log.
        """
        if len(self.rows) == 1:
            return np.arange(rows) // min(self.rows[0], max(rows, 1))
        if sum(self.rows) != rows:
            raise RefusedError(
                f"batches has {sum(self.rows):,} rows in total, but the log has {rows:,}; pass the "
                "rows of each batch, rejected rows included, or one number for all"
            )
        return np.repeat(np.arange(len(self.rows)), self.rows)

    def of_times(self, times_ms: Times) -> Ints:
        """The batch of each event by its time; batches without events do not run."""
        _, batch = np.unique(times_ms // self.every_ms, return_inverse=True)
        return batch


def highest_times(batch: Ints, t_ms: Times) -> Times:
    """The highest event time of each batch; `NEVER_MS` for one without events.

    Raises:
        RefusedError: there are too many batches.
    """
    batches = int(batch.max()) + 1
    check_number(batches)
    highest = np.full(batches, NEVER_MS)
    np.maximum.at(highest, batch, t_ms)
    return highest


def watermarks_of(highest_ms: Times, delay_ms: int) -> Times:
    """The watermark that applies to each batch: the highest time before it, less the delay."""
    before_ms = np.maximum.accumulate(highest_ms)[:-1]
    return np.concatenate([[NEVER_MS], np.maximum(before_ms - delay_ms - 1, 0)])


def check_number(batches: int) -> None:
    """Raise `RefusedError` if these are too many batches."""
    if batches > MOST:
        raise RefusedError(f"{batches:,} batches are too many: use {MOST:,} or fewer, larger ones")
