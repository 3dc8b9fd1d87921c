"""The lives of all keys of a batch, updated by one access of many keys at a time.

This is the rule of `idlestate.retention.single_life`, over arrays.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from idlestate.functions.batched_columns import Flags, Ints
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy, UpdateType
from idlestate.retention.rules import NEVER_MS, armed_cleanup_at, ends, last_access, needs_rearm


class LifeTable:
    """The life of each of k keys.

    Attributes:
        is_open: which keys have an open life.
        seen_ms: the last access of each.
        deadline_ms, reason: when and why each life ends.
        ended_ms: the end of the previous life, as `before_ms` of `KeysAfter`.
        ended_here: whether that life ended in this batch.
    """

    def __init__(self, policy: Policy, k: int) -> None:
        """No life yet."""
        self._policy = policy
        self.is_open: Flags = np.zeros(k, dtype=bool)
        self.ended_here: Flags = np.zeros(k, dtype=bool)
        never = [np.full(k, NEVER_MS) for _ in range(6)]
        self._created_ms, self._written_ms, self._read_ms, self._armed_ms = never[:4]
        self.seen_ms, self.ended_ms = never[4:]
        self._cleanup_ms, self.deadline_ms = np.full(k, FOREVER_MS), np.full(k, FOREVER_MS)
        self.reason = np.zeros(k, dtype=np.int8)
        self.births: list[tuple[Ints, Ints, Ints, Flags]] = []
        self.ends: list[tuple[Ints, Ints, Ints]] = []

    def load(self, keys: Ints, lives: Lives) -> None:
        """Take over lives from the table."""
        self.is_open[keys] = True
        columns = self._created_ms, self._written_ms, self._read_ms, self._armed_ms
        for column, values in zip(columns, lives.columns[:4], strict=True):
            column[keys] = values
        self._cleanup_ms[keys] = lives.cleanup_at_ms(self._policy)
        found = lives.ends(self._policy)
        self.deadline_ms[keys], self.reason[keys] = found.deadline_ms, found.reason
        self.seen_ms[keys] = np.maximum(lives.written_at_ms, lives.read_at_ms)

    def write(self, keys: Ints, t_ms: Ints) -> Ints:
        """Apply writes of different keys, none earlier than a previous access; return the keys that
        had no life.
        """
        is_new = ~self.is_open[keys]
        born, born_ms = keys[is_new], t_ms[is_new]
        if len(born):
            before = self.ended_ms[born], self.ended_here[born]
            self.births.append((born, born_ms, *before))
            self.is_open[born] = self.ended_here[born] = True
            self.ended_ms[born] = self._read_ms[born] = self._armed_ms[born] = NEVER_MS
            self._created_ms[born] = born_ms
            self._cleanup_ms[born] = FOREVER_MS
        self._written_ms[keys] = self.seen_ms[keys] = t_ms
        self._access(keys, t_ms, arms=True)
        return born

    def read(self, keys: Ints, t_ms: Ints) -> None:
        """Apply reads of different keys; keys without a life stay without one."""
        is_open = self.is_open[keys]
        keys, t_ms = keys[is_open], t_ms[is_open]
        self._read_ms[keys] = self.seen_ms[keys] = t_ms
        self._access(keys, t_ms, arms=self._policy.update is UpdateType.ON_READ_AND_WRITE)

    def end(self, keys: Ints, *, expired: bool) -> None:
        """End the lives of keys, because of the deadline or because they are empty."""
        self.is_open[keys] = False
        if expired and len(keys):
            self.ended_ms[keys], self.ended_here[keys] = self.deadline_ms[keys], True
            self.ends.append((keys, self.deadline_ms[keys], self.reason[keys].astype(np.int64)))

    def lives(self, keys: Ints, wakes_at_ms: Ints) -> Lives:
        """The open lives of some keys."""
        columns = self._created_ms, self._written_ms, self._read_ms, self._armed_ms
        created, written, read, armed = (column[keys] for column in columns)
        return Lives(created, written, read, armed, wakes_at_ms)

    def gone(self) -> tuple[Ints, Ints, Ints]:
        """Key, deadline and reason of keys whose last known event is their expiry."""
        keys, deadlines, reasons = joined(self.ends, 3)
        is_last = ~self.is_open[keys] & (self.ended_ms[keys] == deadlines)
        _, last = np.unique(keys[::-1], return_index=True)
        rows = len(keys) - 1 - last
        rows = rows[is_last[rows]]
        return keys[rows], deadlines[rows], reasons[rows]

    def _access(self, keys: Ints, t_ms: Ints, *, arms: bool) -> None:
        policy = self._policy
        if policy.idle_on and arms:
            again = self._armed_ms[keys] == NEVER_MS
            again |= needs_rearm(t_ms, self._cleanup_ms[keys], policy.idle_min_ms)
            armed = keys[again]
            self._armed_ms[armed] = t_ms[again]
            self._cleanup_ms[armed] = armed_cleanup_at(t_ms[again], policy.idle_max_ms)
        base_ms = last_access(self._written_ms[keys], self._read_ms[keys], policy.ttl_update)
        found = ends(self._created_ms[keys], base_ms, self._cleanup_ms[keys], policy)
        self.deadline_ms[keys], self.reason[keys] = found.deadline_ms, found.reason


def joined(parts: Sequence[Sequence[Any]], width: int) -> list[Ints]:
    """Columns, concatenated."""
    none = np.zeros(0, dtype=np.int64)
    return [np.concatenate([none, *(part[at] for part in parts)]) for at in range(width)]
