"""Flink's count trigger: fires after a number of elements per key, and purges idle keys."""

from enum import Enum

from idlestate.retention.setting_error import SettingError
from idlestate.state.idle import IdleRetention
from idlestate.state.value_state import ValueState


class TriggerResult(Enum):
    """The next action of a window."""

    CONTINUE = "CONTINUE"
    FIRE = "FIRE"
    """Emit, and keep the elements."""
    FIRE_AND_PURGE = "FIRE_AND_PURGE"
    """Emit, and drop the elements."""


class CountTrigger:
    """`StateCleaningCountTrigger`: counts the elements of the current key under an idle rule.

    With the idle rule off, it only counts. State and timers belong to the current key. As in Flink,
    clearing the trigger leaves its timer, which purges again.
    """

    def __init__(self, idle: IdleRetention, count: ValueState, max_count: int) -> None:
        """The trigger with its parts.

        Args:
            idle: the idle rule; nothing else uses its timers.
            count: value state of 64-bit integers.
            max_count: the number of elements after which it fires, at least 1.

        Raises:
            SettingError: `max_count` is not an integer of 1 or more.
        """
        whole = isinstance(max_count, int)
        if not (whole and max_count >= 1):
            raise SettingError(f"max_count is {max_count!r}: it must be 1 or more")
        self._idle = idle
        self._count = count
        self._max_count = max_count

    def on_element(self, t_ms: int) -> TriggerResult:
        """Note an element of the current key at t."""
        self._idle.access(t_ms)
        count = (self._count.value() or 0) + 1
        if count < self._max_count:
            self._count.update(count)
            return TriggerResult.CONTINUE
        self._count.clear()
        return TriggerResult.FIRE

    def on_timer(self) -> TriggerResult:
        """Handle a timer of the current key; only for timers of the idle rule's time domain."""
        if not self._idle.is_on:
            return TriggerResult.CONTINUE
        self.clear()
        return TriggerResult.FIRE_AND_PURGE

    def clear(self) -> None:
        """Forget the current key's count and cleanup time."""
        self._count.clear()
        self._idle.forget()
