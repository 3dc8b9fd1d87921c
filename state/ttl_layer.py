"""Time to live as a layer over tables: adds timestamps to values, and checks them on reads.

The tables below do not depend on it. A stored value is `(value, timestamp)`. An expired value is
removed by the read that finds it, by cleanup, or by a compaction, whichever comes first.
"""

from collections.abc import Callable
from typing import Any

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.retention.ttl import expires_ms, horizon_ms
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.batch_values import Stored


class Ttl:
    """The rule of one state, with its clock and cleanup during accesses.

    Attributes:
        config: the rule.
        now_ms: the clock of accesses, which raises `RefusedError` before the first watermark.
        clock_ms: the clock of cleanup, which removes nothing before the first watermark.
        ttl_ms: the time to live.
        on_access: called before an operation; one step of incremental cleanup, or nothing.
    """

    def __init__(
        self, config: StateTtlConfig, now_ms: Callable[[], int], clock_ms: Callable[[], int]
    ) -> None:
        """The rule with these clocks; `on_access` does nothing at first."""
        self.config = config
        self.now_ms, self.clock_ms = now_ms, clock_ms
        self.on_access: Callable[[], object] = _nothing
        self.updates_on_read = config.updates_on_read
        self.returns_expired = config.returns_expired
        self.ttl_ms = config.ttl_ms

    def expired(self, stored: Stored, now_ms: int) -> bool:
        """Whether a stored value has expired; a missing one has not."""
        return stored is not None and stored[1] <= horizon_ms(self.ttl_ms, now_ms)

    def horizon_ms(self, now_ms: int) -> int:
        """The newest timestamp whose values have expired at this time."""
        return horizon_ms(self.ttl_ms, now_ms)

    def expires_ms(self, stamps_ms: Positions) -> Positions:
        """When values with these timestamps expire."""
        return expires_ms(self.ttl_ms, stamps_ms)

    def stamp(self, value: Any) -> Stored:
        """The value with the current time."""
        return (value, self.now_ms())

    def counts(self, stored: Stored, now_ms: int) -> bool:
        """Whether to add to an accumulator: there is a value, and it is not hidden."""
        return (
            stored is not None
            and stored[0] is not None
            and (self.returns_expired or not self.expired(stored, now_ms))
        )


def _nothing() -> None:
    pass
