"""The timers of all keys of a batch: a column of times per name, and for plain timers, as many
columns as any key has plain timers.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.fields import Field
from idlestate.backends.shards.function_state import SEPARATOR
from idlestate.functions.batched_columns import Ints
from idlestate.retention.policy import FOREVER_MS


class TimerTable:
    """Timers of k keys; a call changes the timers of the keys `at`.

    Names are sorted; those of plain timers (empty strings) come first.
    """

    def __init__(self, k: int) -> None:
        """Start without timers."""
        self._k = k
        self._names: list[str] = []
        self._columns: list[Ints] = []
        self._at: Ints = np.zeros(0, dtype=np.int64)

    def load(self, keys: Ints, fields: Sequence[Field]) -> None:
        """Load the timers of some keys, as `idlestate.functions.timer_columns` stores them."""
        texts, times = fields
        there = np.flatnonzero(pc.is_valid(texts).to_numpy(zero_copy_only=False))
        if not len(there):
            return
        rows = pa.array(there)
        lists = pc.split_pattern(texts.take(rows), SEPARATOR)
        bounds = lists.offsets.to_numpy().astype(np.int64)
        names = lists.values.slice(bounds[0], bounds[-1] - bounds[0]).dictionary_encode()
        counts = np.diff(bounds)
        owner = np.repeat(keys[there], counts)
        at_ms = np.frombuffer(b"".join(times.take(rows).to_pylist()), dtype="<i8")
        codes = names.indices.to_numpy()
        for code, name in enumerate(names.dictionary.to_pylist()):
            of = np.flatnonzero(codes == code)
            if name:
                self._column(name)[owner[of]] = at_ms[of]
            else:
                self._set_plain(owner[of], at_ms[of])

    def fields(self, keys: Ints) -> list[Field]:
        """The columns to store for some keys: names in order of time and name, and times."""
        n, width = len(keys), len(self._columns)
        times = np.full((n, max(width, 1)), FOREVER_MS)
        for number, column in enumerate(self._columns):
            times[:, number] = column[keys]
        order = np.argsort(times, axis=1, kind="stable")
        times = np.take_along_axis(times, order, axis=1)
        is_set = times < FOREVER_MS
        counts = is_set.sum(axis=1)
        bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        names = pa.array([*self._names, ""], pa.string()).take(pa.array(order[is_set]))
        lists = pa.ListArray.from_arrays(pa.array(bounds), names)
        missing = pa.array(counts == 0)
        texts = pc.if_else(missing, pa.scalar(None, pa.string()), pc.binary_join(lists, SEPARATOR))
        valid = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
        buffers = [valid, pa.py_buffer(bounds * np.int32(8)), pa.py_buffer(times[is_set])]
        return [texts, pa.Array.from_buffers(pa.binary(), n, buffers)]

    def call(self, keys: Ints) -> None:
        """Set the keys of the next call."""
        self._at = keys

    def forget(self, keys: Ints) -> None:
        """Remove the timers of keys whose lives ended."""
        for column in self._columns:
            column[keys] = FOREVER_MS

    def wakes_at_ms(self, keys: Ints) -> Ints:
        """The time of each key's first timer; `FOREVER_MS` without one."""
        found = np.full(len(keys), FOREVER_MS)
        for column in self._columns:
            np.minimum(found, column[keys], out=found)
        return found

    def take_first(self, keys: Ints, at_ms: Ints) -> list[tuple[str | None, Ints]]:
        """Remove the first timer of each key, at its time `at_ms`.

        Returns:
            The positions of the keys per name, None for plain timers.
        """
        left, found = np.arange(len(keys)), list[tuple[str | None, Ints]]()
        for name, column in zip(self._names, self._columns, strict=True):
            is_here = column[keys[left]] == at_ms[left]
            here, left = left[is_here], left[~is_here]
            if len(here):
                column[keys[here]] = FOREVER_MS
                found.append((name or None, here))
        return found

    def seen(self) -> list[tuple[str, Ints]]:
        """Names and times of the call's keys, for comparison."""
        return [
            (name, column[self._at])
            for name, column in zip(self._names, self._columns, strict=True)
        ]

    def set(self, name: str | None, rows: Ints, at_ms: Ints) -> None:
        """See `CallTimers`."""
        if name is None:
            self._set_plain(self._at[rows], at_ms)
        else:
            self._column(name)[self._at[rows]] = at_ms

    def delete(self, name: str | None, rows: Ints, at_ms: Ints | None) -> None:
        """See `CallTimers`."""
        keys = self._at[rows]
        for each, column in zip(self._names, self._columns, strict=True):
            if at_ms is None and name and each == name:
                column[keys] = FOREVER_MS
            elif at_ms is not None and not each:
                column[keys[column[keys] == at_ms]] = FOREVER_MS

    def times_ms(self, name: str) -> pa.Array:
        """See `CallTimers`."""
        found = np.full(len(self._at), FOREVER_MS)
        if name and name in self._names:
            found = self._columns[self._names.index(name)][self._at]
        return pa.array(found, mask=found == FOREVER_MS)

    def _column(self, name: str) -> Ints:
        if name not in self._names:
            self._add(name)
        return self._columns[self._names.index(name)]

    def _add(self, name: str) -> None:
        at = sum(each <= name for each in self._names)
        self._names.insert(at, name)
        self._columns.insert(at, np.full(self._k, FOREVER_MS))

    def _set_plain(self, keys: Ints, at_ms: Ints) -> None:
        """Set plain timers; the keys may repeat."""
        while len(keys):
            # One timer of each key at a time.
            _, first = np.unique(keys, return_index=True)
            rest = np.ones(len(keys), dtype=bool)
            rest[first] = False
            self._set_one(keys[first], at_ms[first])
            keys, at_ms = keys[rest], at_ms[rest]

    def _set_one(self, keys: Ints, at_ms: Ints) -> None:
        plain = [c for name, c in zip(self._names, self._columns, strict=True) if not name]
        known = np.zeros(len(keys), dtype=bool)
        for column in plain:
            known |= column[keys] == at_ms
        keys, at_ms = keys[~known], at_ms[~known]
        for column in plain:
            free = column[keys] == FOREVER_MS
            column[keys[free]] = at_ms[free]
            keys, at_ms = keys[~free], at_ms[~free]
        if len(keys):
            self._add("")
            self._set_one(keys, at_ms)
