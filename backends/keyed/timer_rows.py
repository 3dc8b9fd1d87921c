"""Timers as rows: the key group, the time, then key and namespace as in rows of state."""

from dataclasses import dataclass

from idlestate.backends.keyed.rows import KeyLayout
from idlestate.timers.timer import Timer, time_bytes, time_of


@dataclass(frozen=True, slots=True)
class TimerLayout:
    """The `TimerCodec` of one backend."""

    keys: KeyLayout

    def encode(self, timer: Timer) -> bytes:
        """The row of a timer."""
        prefix = self.keys.prefix(timer.key, timer.namespace)
        return prefix[:2] + time_bytes(timer.timestamp_ms) + prefix[2:]

    def decode(self, row: bytes) -> Timer:
        """The timer of a row."""
        _, key, namespace, _ = self.keys.split(row[:2] + row[10:])
        return Timer(time_of(row), key, namespace)
