"""Idle retention for many keys at once: the rule of `idle.py` over arrays.

A timer that was moved is not deleted but left to come up, where it is found to be stale: the key's
cleanup time says otherwise. So a key has at most max / (max - min) timers more.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.retention.rules import NEVER_MS, armed_cleanup_at, needs_rearm
from idlestate.state.key_batch import KeyBatch
from idlestate.state.state import Many
from idlestate.state.value_state import ValueState
from idlestate.timers.timer_service import TimerService, check_domain


class IdleBatches:
    """The rule for batches of keys; calls for one key may go through `IdleRetention` meanwhile.

    Args:
        policy: the windows; the rule is off iff the policy's idle rule is.
        cleanup_time: value state of 64-bit integers.
        timers: a timer service that nothing else uses.
        domain: whose time counts.

    Raises:
        TypeError: the domain is no `TimeDomain`.
    """

    def __init__(
        self, policy: Policy, cleanup_time: ValueState, timers: TimerService, domain: TimeDomain
    ) -> None:
        check_domain(domain)
        self._policy = policy
        self._cleanup_time = cleanup_time
        self._timers = timers
        self._domain = domain

    def access_many(self, keys: Many, times_ms: Many) -> None:
        """Note accesses, each at its time, those of one key in this order."""
        if not self._policy.idle_on:
            return
        batch = self._cleanup_time.table.batch_of(keys)
        times = np.asarray(times_ms, dtype=np.int64)
        left = np.arange(len(batch))
        while len(left):  # the first access that is left of each key, then the next ones
            some = batch.take(left)
            first = some.first_of_each()
            self._access(some.where(first), times[left[first]])
            left = left[~first]

    def _access(self, keys: KeyBatch, times: Positions) -> None:
        stored = self._cleanup_time.get_many(keys)
        before = stored.fill_null(NEVER_MS).to_numpy()
        moved: Flags = needs_rearm(times, before, self._policy.idle_min_ms)
        moved = moved | stored.is_null().to_numpy(zero_copy_only=False)
        if not moved.any():
            return
        armed, cleanup = keys.where(moved), armed_cleanup_at(times[moved], self._policy.idle_max_ms)
        self._timers.register_many(self._domain, armed, None, cleanup)
        self._cleanup_time.put_many(armed, pa.array(cleanup, pa.int64()))

    def take_idle(self, now_ms: int, limit: int) -> tuple[KeyBatch, bool]:
        """Take keys whose cleanup time has come, so many at most; clear their states then.

        Returns:
            The keys, and whether these were the last: else call again.
        """
        taken = self._timers.take_due(self._domain, now_ms, limit)
        stored: Any = self._cleanup_time.get_many(taken.keys)
        idle = stored.fill_null(NEVER_MS).to_numpy() == taken.times_ms
        keys = taken.keys.where(idle)
        self._cleanup_time.remove_many(keys)
        return keys, len(taken.keys) < limit
