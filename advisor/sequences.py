"""Events key by key, and their lives under any idle window.

With min < max, the end of a life depends on which of its events re-armed it, so the events are
processed by the same function as in a job (`retention.lives.walk`).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.advisor.spans import Moments, Spans
from idlestate.advisor.window_ladder import Window
from idlestate.retention.lives import Accesses, Lives, walk
from idlestate.retention.rules import Times, is_due, saturating_add

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """Events key by key, times of one key never descending.

    Attributes:
        t_ms: when each event happened.
        begins_key: whether it is the first of its key.
        batch: the batch of each event; None without batches.
    """

    t_ms: Times
    begins_key: Flags
    batch: Ints | None = None

    def between(self, from_ms: int, to_ms: int) -> "Sequences":
        """The events in [from, to) alone."""
        inside = (self.t_ms >= from_ms) & (self.t_ms < to_ms)
        key = np.cumsum(self.begins_key)[inside]
        begins = np.ones(len(key), dtype=bool)
        begins[1:] = key[1:] != key[:-1]
        return Sequences(self.t_ms[inside], begins)

    def lives(self, window: Window) -> "WalkedLives":
        """The lives under a window."""
        none = np.zeros(0, dtype=np.int64)
        starts = np.flatnonzero(self.begins_key)
        counts = np.diff(np.append(starts, len(self.t_ms)))
        found = walk(
            Accesses(counts, self.t_ms, None),
            Lives(none, none, none, none),
            np.zeros(len(counts), dtype=bool),
            window.policy,
        )
        return WalkedLives(found.lives.created_at_ms, found.ends.deadline_ms, found.is_closed)

    def held(self, window: Window, watermarks_ms: Times) -> Ints:
        """The number of lives held after each batch, once those due at its watermark are closed."""
        assert self.batch is not None
        key = np.cumsum(self.begins_key) - 1
        by_batch = np.argsort(self.batch, kind="stable")
        cuts = np.searchsorted(self.batch[by_batch], np.arange(len(watermarks_ms) + 1))
        lives, owner = _none(), np.zeros(0, dtype=np.int64)
        held = np.zeros(len(watermarks_ms), dtype=np.int64)
        for batch, watermark_ms in enumerate(watermarks_ms.tolist()):
            rows = by_batch[cuts[batch] : cuts[batch + 1]]
            lives, owner = _after_batch(lives, owner, self.t_ms[rows], key[rows], window)
            stays = ~is_due(lives.ends(window.policy).deadline_ms, watermark_ms)
            lives, owner = lives.take(stays), owner[stays]
            held[batch] = len(owner)
        return held


@dataclass(frozen=True, slots=True, eq=False)
class WalkedLives:
    """Lives in order of key and time: when each began and ends, and whether its key came back."""

    created_at_ms: Times
    deadline_ms: Times
    is_followed: Flags

    @property
    def returns(self) -> int:
        """The number of returns after an expiry."""
        return int(self.is_followed.sum())

    def remembered(self, remember_ms: int) -> int:
        """The number of returns within this time after the end of a life."""
        followed = np.flatnonzero(self.is_followed)
        until = saturating_add(self.deadline_ms[followed], remember_ms)
        return int((self.created_at_ms[followed + 1] <= until).sum())

    def ended(self, until_ms: int) -> int:
        """The number of lives that ended: by a later event, or because they were due at this
        time.
        """
        return int((self.is_followed | is_due(self.deadline_ms, until_ms)).sum())

    def live_ms(self, end_ms: int) -> int:
        """The total duration of all lives, up to `end_ms`."""
        return int((np.minimum(self.deadline_ms, end_ms) - self.created_at_ms).sum())

    @property
    def spans(self) -> Spans:
        """When they begin and end."""
        begins, ends = np.sort(self.created_at_ms), np.sort(self.deadline_ms)
        return Spans((Moments(begins),), (Moments(ends),), 0)


def _none() -> Lives:
    none = np.zeros(0, dtype=np.int64)
    return Lives(none, none, none, none)


def _after_batch(
    lives: Lives, owner: Ints, t_ms: Times, key: Ints, window: Window
) -> tuple[Lives, Ints]:
    """The lives of all keys after a batch; `key` ascends, as does `owner`, the key of each life."""
    distinct, counts = np.unique(key, return_counts=True)
    has_old = np.isin(distinct, owner, assume_unique=True)
    is_touched = np.isin(owner, distinct, assume_unique=True)
    found = walk(Accesses(counts, t_ms, None), lives.take(is_touched), has_old, window.policy)
    newest = ~found.is_closed
    merged = [lives.take(~is_touched), found.lives.take(newest)]
    owners = np.concatenate([owner[~is_touched], distinct[found.key[newest]]])
    order = np.argsort(owners)
    columns = (
        np.concatenate(both)[order] for both in zip(*(each.columns for each in merged), strict=True)
    )
    return Lives(*columns), owners[order]
