"""State TTL: when a stored value has expired. Times and spans are int milliseconds.

A value stamped at `ts` is live at `ts + ttl - 1` and expired at `ts + ttl`. The sum saturates at
the largest 64-bit time instead of overflowing, so a value stamped at 2^63-1 is expired when it is
written. Source: Flink's `TtlUtils.expired`.

`now_ms` is used unchanged: if a clock goes backwards, values live longer.
"""

from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import Times, saturating_add


def horizon_ms(ttl_ms: int, now_ms: int) -> int:
    """The newest timestamp that has expired: a value is expired iff its stamp is not above it.

    It may be below the smallest 64-bit time. At the largest time every value is expired.
    """
    return now_ms if now_ms == FOREVER_MS else now_ms - ttl_ms


def expiry_ms(ttl_ms: int, stamp_ms: int) -> int:
    """The first time at which a value with this stamp has expired."""
    end_ms = stamp_ms + ttl_ms
    return end_ms if end_ms < FOREVER_MS else FOREVER_MS


def expires_ms(ttl_ms: int, stamps_ms: Times) -> Times:
    """`expiry_ms` of many stamps."""
    found: Times = saturating_add(stamps_ms, ttl_ms)
    return found
