"""A run: rows in order of hash that were written at once and never change."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.keys import Keys
from idlestate.backends.runs.reading import IN_MEMORY, Reading, Source, together
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.segment import Segment
from idlestate.backends.runs.sweeps import Sweeps, ending, reached_ms
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.retention.policy import Policy
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Run:
    """Segments in order of hash, at least one."""

    segments: tuple[Segment, ...]
    policy: Policy
    """Its deadlines are indexed under this policy."""
    batch_id: int
    """The batch that wrote it: every row was open when that batch had swept."""
    source: Source = IN_MEMORY
    """The file that the columns lie in."""

    @cached_property
    def starts(self) -> Ints:
        """Where each segment's rows begin among all, and the number of rows."""
        return np.cumsum([0, *(len(segment) for segment in self.segments)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def with_schema(self, schema: TableSchema) -> "Run":
        """The same rows with other payload columns; those that are new are blank."""
        segments = tuple(
            replace(each, reader=each.reader.with_schema(schema)) for each in self.segments
        )
        return replace(self, segments=segments)

    def need_all(self) -> None:
        """Have all of it read: from then on every column may be."""
        if not self.source.is_whole:
            self.source.need(np.array([0]), np.array([self.source.data.size]))

    @cached_property
    def _firsts(self) -> Ints:
        return np.array([segment.first for segment in self.segments])

    @cached_property
    def _lasts(self) -> Ints:
        return np.array([segment.last for segment in self.segments])

    def look_up(self, hashes: Ints, keys: Keys) -> Ints:
        """The row of each key, tombstones too; -1 where there is none.

        Args:
            hashes, keys: the keys looked for, in order of hash.
        """
        begins = np.searchsorted(hashes, self._firsts, side="left").tolist()
        stops = np.searchsorted(hashes, self._lasts, side="right").tolist()
        places = [
            (segment, start, begin, stop)
            for segment, start, begin, stop in zip(
                self.segments, self.starts.tolist(), begins, stops, strict=False
            )
            if begin < stop
        ]
        readings = [
            segment.look_up(
                hashes[begin:stop], [column.slice(begin, stop - begin) for column in keys]
            )
            for segment, _, begin, stop in places
        ]
        found = np.full(len(hashes), -1)
        rows = together(self.source, readings)
        for (_, start, begin, stop), at in zip(places, rows, strict=True):
            found[begin:stop] = np.where(at < 0, -1, at + start)
        return found

    def take(self, rows: Ints, *, keys: bool) -> Rows:
        """The rows at these positions, which ascend, with or without keys; at least one."""
        bounds = np.searchsorted(rows, self.starts).tolist()
        readings = [
            segment.take(rows[begin:stop] - start, keys=keys)
            for segment, start, begin, stop in zip(
                self.segments, self.starts.tolist(), bounds[:-1], bounds[1:], strict=False
            )
            if begin < stop
        ]
        parts = together(self.source, readings)
        return parts[0] if len(parts) == 1 else Rows.gathered(parts)

    def hashes_from(self, since: int, most: int) -> Ints:
        """The lowest hashes from `since` on, at most so many; all of the run has been read."""
        found, left = [np.zeros(0, dtype=np.int64)], most
        for segment in self.segments[int(np.searchsorted(self._lasts, since)) :]:
            hashes = segment.stored.hashes
            begin = int(np.searchsorted(hashes, since))
            found.append(hashes[begin : begin + left])
            left -= len(found[-1])
            if not left:
                break
        return np.concatenate(found)

    def between(self, since: int, upto: int) -> "Run | None":
        """Its rows with hashes from `since` to `upto`, both included, without an index; None for
        none. All of the run has been read.
        """
        begin = int(np.searchsorted(self._lasts, since))
        stop = int(np.searchsorted(self._firsts, upto, side="right"))
        parts = [segment.between(since, upto) for segment in self.segments[begin:stop]]
        segments = tuple(part for part in parts if part is not None)
        return replace(self, segments=segments) if segments else None

    def due(self, policy: Policy, upto_ms: int, sweeps: Sweeps) -> Ints:
        """Rows whose lives end at or before `upto_ms` and that no earlier sweep closed.

        Args:
            policy: the policy in force.
            upto_ms: how far this sweep goes.
            sweeps: the sweeps since the run was written.
        """
        after_ms = self._indexed_after_ms(policy, sweeps)
        found = self._of_each(lambda each: each.due_rows(policy, after_ms, upto_ms, sweeps))
        return np.concatenate(
            [rows + start for rows, start in zip(found, self.starts.tolist(), strict=False)]
        )

    def next_end_ms(self, policy: Policy, sweeps: Sweeps) -> int:
        """No open life of the run ends before this; `FOREVER_MS` when none does.

        Rows of keys that newer runs have count too, and the index is coarse: it may be too early.
        """
        after_ms = self._indexed_after_ms(policy, sweeps)
        return min(self._of_each(lambda each: each.next_end_ms(policy, after_ms, sweeps)))

    def _indexed_after_ms(self, policy: Policy, sweeps: Sweeps) -> int | None:
        """From where on the index is to be asked; None: not at all, it is of another policy."""
        is_indexed = ending(policy) == ending(self.policy)
        return reached_ms(sweeps, policy, NEVER_MS) if is_indexed else None

    def _of_each(self, read: Callable[[Segment], Reading[_T]]) -> list[_T]:
        return together(self.source, [read(segment) for segment in self.segments])
