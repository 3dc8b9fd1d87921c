"""The context of each call of a function: key, time, states and timers."""

from typing import Any

from idlestate.errors import RefusedError
from idlestate.retention.policy import FOREVER_MS
from idlestate.state.descriptors import StateDescriptor

Timers = dict[str | int, int]
"""The timers of a key: the name, or the time for a plain timer, mapped to the due time (ms)."""


class FunctionContext:
    """The context of each call of a function.

    Attributes:
        key: the key of the record: the value of the key column, or a tuple for several columns.
        timestamp_ms: the time of the record or timer; in processing time, the time of the batch.
        timers: the timers of the key; change them only through the methods.
        wakes_at_ms: the time of the first timer; `FOREVER_MS` without one.
    """

    __slots__ = ("_states", "key", "timers", "timestamp_ms", "wakes_at_ms")

    def __init__(self, states: Any) -> None:
        """Start without a key.

        Args:
            states: what `state` returns, by descriptor name.
        """
        self.key: Any = None
        self.timestamp_ms = 0
        self._states = states
        self.timers: Timers = {}
        self.wakes_at_ms = FOREVER_MS

    def state(self, descriptor: StateDescriptor[Any]) -> Any:
        """The key's state with this descriptor.

        Raises:
            RefusedError: the function does not declare it.
        """
        try:
            return self._states[descriptor.name]
        except KeyError:
            raise RefusedError(
                f"state {descriptor.name!r} is not declared; make its descriptor a class "
                "attribute of the function, or pass it to ctx.state in open"
            ) from None

    def timer(self, name: str, at_ms: int) -> None:
        """Have `on_timer(name, ctx)` called at this time; replaces the key's timer with this
        name.
        """
        self._set(checked_name(name), at_ms)

    def register_timer(self, at_ms: int) -> None:
        """Have `on_timer(None, ctx)` called at this time; setting the same time twice creates one
        timer.
        """
        self._set(at_ms, at_ms)

    def delete_timer(self, timer: str | int) -> None:
        """Delete a timer of the key by name, or a plain timer by time; a missing timer is
        ignored.
        """
        if self.timers.pop(timer, None) is not None:
            self.wakes_at_ms = min(self.timers.values(), default=FOREVER_MS)

    def timer_at(self, name: str) -> int | None:
        """When the timer with this name is due (ms); None without one."""
        return self.timers.get(name)

    def _set(self, timer: str | int, at_ms: int) -> None:
        if at_ms.__class__ is not int or not -FOREVER_MS < at_ms < FOREVER_MS:
            raise RefusedError(f"timer at {at_ms!r} is not valid; pass int milliseconds")
        timers = self.timers
        timers[timer] = at_ms
        self.wakes_at_ms = at_ms if len(timers) == 1 else min(timers.values())


def checked_name(name: str) -> str:
    """The name of a timer.

    Raises:
        RefusedError: it is not a string of printable characters.
    """
    if name.__class__ is not str or not name or not name.isprintable():
        raise RefusedError(
            f"timer name {name!r} is not valid; use a string of printable characters"
        )
    return name
