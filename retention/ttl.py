"""State TTL: when a stored value has expired. Times and spans are int milliseconds.

A value stamped at `ts` is live at `ts + ttl - 1` and expired at `ts + ttl`. The sum saturates at
the largest 64-bit time instead of overflowing, so a value stamped at 2^63-1 is expired when it is
written. Source: Flink's `TtlUtils.expired`.

`now_ms` is taken as it is: if a clock runs back, values live longer.
"""

from typing import Any

from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import saturating_add


def horizon_ms(ttl_ms: int, now_ms: int) -> int:
    """The newest timestamp that has expired: a value is expired iff its stamp is not above it.

    It may be below the smallest 64-bit time. At the largest time every value is expired.
    """
    return now_ms if now_ms == FOREVER_MS else now_ms - ttl_ms


def expires_ms(ttl_ms: int, stamps_ms: Any) -> Any:
    """The first time at which a value with this stamp, or each of many, has expired."""
    return saturating_add(stamps_ms, ttl_ms)
