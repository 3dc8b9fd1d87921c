"""Idle retention for user functions: Flink's `CleanupState` over a value state and a timer.

An access at t arms the key, or arms it again, iff it was not armed or `t + min` is past its cleanup
time. Then the cleanup time is `t + max`, and a timer waits for it. `retention.rules` explains the
rule with an example. The cleanup time is value state, and the timer is an ordinary timer, so both
are in every snapshot.
"""

from typing import Any

from idlestate.retention.policy import Policy
from idlestate.retention.rules import armed_cleanup_at, is_due, needs_rearm
from idlestate.state.value_state import ValueState
from idlestate.timers.timer import time_from
from idlestate.timers.timer_service import TimerService


class IdleRetention:
    """The rule for the current key of a backend."""

    def __init__(
        self,
        policy: Policy,
        cleanup_time: ValueState,
        timers: TimerService,
        *,
        namespace: Any = None,
    ) -> None:
        """The rule with its parts.

        Args:
            policy: the windows and the time domain; the rule is off iff the policy's idle rule is
                off.
            cleanup_time: value state of 64-bit integers.
            timers: the service for cleanup timers; it may have other timers too.
            namespace: the namespace of the timers.
        """
        self._policy = policy
        self._cleanup_time = cleanup_time
        self._timers = timers
        self._namespace = namespace

    @property
    def is_on(self) -> bool:
        """Whether the policy's idle rule is on."""
        return self._policy.idle_on

    def access(self, t_ms: int) -> int | None:
        """Note an access of the current key at t; return its cleanup time (None: rule off)."""
        t_ms = time_from(t_ms)
        if not self.is_on:
            return None
        before: int | None = self._cleanup_time.value()
        if before is not None and not needs_rearm(t_ms, before, self._policy.idle_min_ms):
            return before
        cleanup_at_ms = int(armed_cleanup_at(t_ms, self._policy.idle_max_ms))
        self._timers.register(self._policy.time, self._namespace, cleanup_at_ms)
        if before is not None:
            self._timers.delete(self._policy.time, self._namespace, before)
        self._cleanup_time.update(cleanup_at_ms)
        return cleanup_at_ms

    def is_cleanup_due(self, t_ms: int) -> bool:
        """Whether a timer of the policy's time domain that fires at t is the current key's cleanup.

        Timers for other purposes have other times, and clean nothing.
        """
        t_ms, cleanup_at_ms = time_from(t_ms), self._cleanup_time.value()
        return (
            self.is_on
            and cleanup_at_ms is not None
            and bool(is_due(cleanup_at_ms, t_ms))
            and not is_due(cleanup_at_ms, t_ms - 1)
        )

    def forget(self) -> None:
        """Clear the cleanup time after the current key was cleaned; a waiting timer stays."""
        self._cleanup_time.clear()

    def drop(self) -> None:
        """Remove the current key's cleanup time and its timer."""
        cleanup_at_ms: int | None = self._cleanup_time.value()
        if cleanup_at_ms is not None:
            self._timers.delete(self._policy.time, self._namespace, cleanup_at_ms)
            self._cleanup_time.clear()
