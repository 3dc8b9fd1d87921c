"""The retention rule: when a life is armed, when it ends, and why.

All functions take plain ints and numpy int64 arrays (milliseconds). They have no clock and no
state. Every backend calls them, so each rule has one implementation.

**Idle.** An access at t re-arms a key iff it was not armed or `t + min > cleanup_at`; then
`armed_at = t` and `cleanup_at = t + max`. With min 30 and max 45, a key first seen at 100 is due
at 145. An access at 115 does not change that (115 + 30 = 145 is not past it); one at 116 moves
the end to 161. An idle key therefore lives at least min and at most max after its last access, and
a busy key is re-armed at most once per `max - min`. Source: Flink's `CleanupState`, strict `>`.

**Deadline.** The earliest of the idle rule's cleanup time, `written_at + ttl` and
`created_at + max_lifetime`; a life has ended at t iff `deadline <= t`.

Sums saturate: a time is never past `FOREVER_MS`, and `NEVER_MS` marks a missing time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from idlestate.retention.policy import FOREVER_MS, Policy, UpdateType

NEVER_MS = -(2**63)
"""A missing time: never read, never armed."""

Times = npt.NDArray[np.int64]


class Reason(IntEnum):
    """Why a life ended; on a tie, the smallest number is the reason."""

    LIFETIME = 0
    TTL = 1
    IDLE = 2
    OPEN = 3
    """No rule is on."""

    @property
    def label(self) -> str | None:
        """The word in expired records; None for a life without an end."""
        return None if self is Reason.OPEN else self.name.lower()


def saturating_add(times_ms: Any, span_ms: int) -> Any:
    """Add a span (>= 0, milliseconds) to times; saturate at `FOREVER_MS` instead of overflowing."""
    if isinstance(times_ms, np.ndarray):
        ceiling = FOREVER_MS - span_ms
        return np.minimum(times_ms, ceiling) + span_ms
    return min(int(times_ms) + span_ms, FOREVER_MS)


def needs_rearm(t_ms: Any, cleanup_at_ms: Any, min_ms: int) -> Any:
    """Whether an access at `t_ms` moves a cleanup time that is already set."""
    return saturating_add(t_ms, min_ms) > cleanup_at_ms


def armed_cleanup_at(armed_at_ms: Any, max_ms: int) -> Any:
    """The cleanup time that arming at `armed_at_ms` sets."""
    return saturating_add(armed_at_ms, max_ms)


def cleanup_at(armed_at_ms: Any, last_access_ms: Any, policy: Policy) -> Any:
    """The idle rule's cleanup time of lives last armed and accessed at these times.

    As long as the policy does not change, this is `armed_at + max`. After a change, it is at least
    the new min and at most the new max after the last access. A life that was never armed
    (`NEVER_MS`) counts as armed at its last access. `FOREVER_MS` if the idle rule is off.
    """
    if not policy.idle_on:
        return np.full_like(armed_at_ms, FOREVER_MS) if _is_array(armed_at_ms) else FOREVER_MS
    never_armed = armed_at_ms == NEVER_MS
    if _is_array(armed_at_ms):
        armed = np.where(never_armed, last_access_ms, armed_at_ms)
        return np.maximum(
            saturating_add(armed, policy.idle_max_ms),
            saturating_add(last_access_ms, policy.idle_min_ms),
        )
    armed = last_access_ms if never_armed else armed_at_ms
    return max(
        saturating_add(armed, policy.idle_max_ms),
        saturating_add(last_access_ms, policy.idle_min_ms),
    )


def last_access(written_at_ms: Any, read_at_ms: Any, update: UpdateType) -> Any:
    """The last access that counts: the last write, or under on_read_and_write a later read."""
    if update is UpdateType.ON_CREATE_AND_WRITE:
        return written_at_ms
    if _is_array(written_at_ms):
        return np.maximum(written_at_ms, read_at_ms)
    return max(written_at_ms, read_at_ms)


def is_due(deadline_ms: Any, t_ms: Any) -> Any:
    """Whether a life with this deadline has ended for a reader at `t_ms`."""
    return deadline_ms <= t_ms


@dataclass(frozen=True, slots=True)
class Ends:
    """When lives end and why: int64 milliseconds and int8 `Reason` codes, one per life."""

    deadline_ms: Times
    reason: npt.NDArray[np.int8]

    @classmethod
    def joined(cls, parts: Sequence["Ends"]) -> "Ends":
        """The ends of these one after the other."""
        none = cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int8))
        times = [none.deadline_ms, *(part.deadline_ms for part in parts)]
        return cls(
            np.concatenate(times), np.concatenate([none.reason, *(part.reason for part in parts)])
        )

    def take(self, rows: npt.NDArray[np.int64]) -> "Ends":
        """The ends at these positions."""
        return Ends(self.deadline_ms[rows], self.reason[rows])


def ends(created_at_ms: Any, ttl_base_ms: Any, cleanup_at_ms: Any, policy: Policy) -> Ends:
    """Deadline and reason of lives.

    Args:
        created_at_ms: when the lives began.
        ttl_base_ms: the access that ttl counts from, `last_access` under `policy.ttl_update`.
        cleanup_at_ms: the idle rule's cleanup time, `FOREVER_MS` where it is off.
        policy: the policy in force.
    """
    deadline = np.array(cleanup_at_ms, dtype=np.int64)
    reason = np.full(deadline.shape, Reason.IDLE if policy.idle_on else Reason.OPEN, dtype=np.int8)
    for span_ms, base_ms, code in (
        (policy.ttl_ms, ttl_base_ms, Reason.TTL),
        (policy.max_lifetime_ms, created_at_ms, Reason.LIFETIME),
    ):
        if span_ms:
            end = np.asarray(saturating_add(base_ms, span_ms))
            earlier = end <= deadline
            deadline = np.where(earlier, end, deadline)
            reason = np.where(earlier, np.int8(code), reason)
    return Ends(deadline, reason)


def deadline(created_at_ms: Any, ttl_base_ms: Any, cleanup_at_ms: Any, policy: Policy) -> Any:
    """The deadlines alone of lives; arguments as for `ends`."""
    found = cleanup_at_ms
    for span_ms, base_ms in (
        (policy.ttl_ms, ttl_base_ms),
        (policy.max_lifetime_ms, created_at_ms),
    ):
        if span_ms:
            found = np.minimum(found, saturating_add(base_ms, span_ms))
    return found


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)
