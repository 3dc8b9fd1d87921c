"""State TTL: when a stored value has expired. Times and spans are int milliseconds.

A value stamped at `ts` is alive at `ts + ttl - 1` and expired exactly at `ts + ttl`. The sum stops
at the largest 64-bit time instead of wrapping, so a value can be expired at the moment it is
written: stamped at 2^63-1, it has nowhere later to end. Source: Flink's `TtlUtils.expired`.

Who asks believes the `now_ms` it has: a clock that runs back lets values live longer.
"""

from typing import Any

from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import is_due, saturating_add


def has_expired(stamped_at_ms: Any, ttl_ms: int, now_ms: int) -> Any:
    """Whether values stamped at these times (an int or int64 array) have expired at `now_ms`."""
    return is_due(saturating_add(stamped_at_ms, ttl_ms), now_ms)


def horizon_ms(ttl_ms: int, now_ms: int) -> int:
    """The youngest timestamp whose values have expired: those up to it have, no other has.

    It may lie before the smallest 64-bit time. At the largest time nothing lives: no end is later.
    """
    return now_ms if now_ms == FOREVER_MS else now_ms - ttl_ms
