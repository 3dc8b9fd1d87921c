"""Idle retention for many keys at once: the rule of `idle.py` over arrays.

When a cleanup time moves, its timer is not deleted. When it fires, it is ignored, because the key's
cleanup time differs. So a key has at most max / (max - min) additional timers.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Flags, Positions
from idlestate.retention.policy import Policy
from idlestate.retention.rules import NEVER_MS, armed_cleanup_at, needs_rearm
from idlestate.state.key_batch import KeyBatch
from idlestate.state.state import Many
from idlestate.state.timer_rows import times_for
from idlestate.state.value_state import ValueState
from idlestate.timers.timer_service import TimerService


class IdleBatches:
    """The rule for batches of keys; single keys may use `IdleRetention` at the same time.

    Args:
        policy: the windows and the time domain; the rule is off iff the policy's idle rule is off.
        cleanup_time: value state of 64-bit integers.
        timers: a timer service that nothing else uses.
    """

    def __init__(self, policy: Policy, cleanup_time: ValueState, timers: TimerService) -> None:
        self._policy = policy
        self._cleanup_time = cleanup_time
        self._timers = timers

    def access_many(self, keys: Many, times_ms: Many) -> None:
        """Note accesses, each at its time; those of one key in this order.

        Raises:
            StateError: the times are not one integer for each key; nothing is noted.
        """
        if not self._policy.idle_on:
            return
        batch = self._cleanup_time.table.batch_of(keys)
        times = times_for(batch, times_ms)
        left = np.arange(len(batch))
        while len(left):  # the first remaining access of each key, then the next ones
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
        self._timers.register_many(self._policy.time, armed, None, cleanup)
        self._cleanup_time.put_many(armed, pa.array(cleanup, pa.int64()))

    def take_idle(self, now_ms: int, limit: int) -> tuple[KeyBatch, bool]:
        """Take at most this many keys whose cleanup time has come; the caller clears their states.

        Returns:
            The keys, and whether these were the last ones; if not, call again.
        """
        taken = self._timers.take_due(self._policy.time, now_ms, limit)
        stored: Any = self._cleanup_time.get_many(taken.keys)
        idle = stored.fill_null(NEVER_MS).to_numpy() == taken.times_ms
        keys = taken.keys.where(idle)
        self._cleanup_time.remove_many(keys)
        return keys, len(taken.keys) < limit
