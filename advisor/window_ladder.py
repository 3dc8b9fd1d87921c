"""Idle windows: those that a caller passes, and the default ladder."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from idlestate.errors import RefusedError
from idlestate.retention.durations import (
    UNITS_MS,
    Duration,
    DurationError,
    duration_ms,
    format_duration,
)
from idlestate.retention.policy import Policy

WindowLike = Duration | tuple[Duration, Duration]
"""One span for min and max, `30m/45m`, or the pair (min, max)."""

_STEPS = {
    "s": (1, 2, 5, 10, 15, 30),
    "m": (1, 2, 3, 5, 10, 15, 20, 30, 45),
    "h": (1, 2, 3, 4, 6, 8, 12, 18),
    "d": (1, 2, 3, 4, 5, 7, 10, 14, 21, 30, 45, 60, 90, 120, 180, 270, 365, 730, 1825, 3650),
}
LADDER_MS = tuple(count * UNITS_MS[unit] for unit, counts in _STEPS.items() for count in counts)
"""Windows that people use, 1 second to 10 years."""
_FINEST_MS = 1_000
_COARSEST_FIRST_MS = 60_000


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """An idle window in milliseconds: an idle key lives at least min and at most max.

    Raises:
        RefusedError: this min turns the idle rule off, or the max is below the min.
    """

    min_ms: int
    max_ms: int

    def __post_init__(self) -> None:
        try:
            is_on = self.policy.idle_on
        except ValueError as error:
            raise RefusedError(f"window {self}: {error}") from error
        if not is_on:
            raise RefusedError(f"window {self}: use at least 2 ms, such as 30m")

    @classmethod
    def of(cls, given: WindowLike) -> "Window":
        """The window that a caller passed.

        Raises:
            RefusedError: it is not a valid window.
        """
        if isinstance(given, str) and "/" in given:
            low, _, high = given.partition("/")
            return cls(span_ms("windows", low), span_ms("windows", high))
        if isinstance(given, tuple):
            if len(given) != 2:
                raise RefusedError(f"window {given!r}: pass (min, max), or one span for both")
            return cls(span_ms("windows", given[0]), span_ms("windows", given[1]))
        return cls.single(span_ms("windows", given))

    @classmethod
    def single(cls, window_ms: int) -> "Window":
        """The window with min = max."""
        return cls(window_ms, window_ms)

    @property
    def is_single(self) -> bool:
        """Whether min = max: a life ends exactly that long after its last event."""
        return self.min_ms == self.max_ms

    @property
    def policy(self) -> Policy:
        """The policy of a job with this window."""
        return Policy(idle_min_ms=self.min_ms, idle_max_ms=self.max_ms, min_gap_ms=0)

    def __str__(self) -> str:
        low = format_duration(self.min_ms)
        return low if self.is_single else f"{low}/{format_duration(self.max_ms)}"


def span_ms(argument: str, value: object) -> int:
    """A duration in milliseconds.

    Raises:
        RefusedError: it is not a duration; the text names the argument.
    """
    try:
        return duration_ms(value)
    except DurationError as error:
        raise RefusedError(f"{argument}: {error}") from error


def windows_of(given: Sequence[WindowLike] | None, log_ms: int) -> list[Window]:
    """The windows to try, ascending, each once: those passed, or the ladder for a log of this
    length.

    Raises:
        RefusedError: one is not valid.
    """
    if given is None:
        return [Window.single(rung) for rung in _ladder(log_ms)]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise RefusedError(f"windows {given!r}: pass a list, such as [{given!r}]")
    found = sorted({Window.of(each) for each in given})
    if not found:
        raise RefusedError("windows is empty: pass at least one, or leave it out")
    return found


def lowest_ms(log_ms: int) -> int:
    """The shortest window to try: a thousandth of the log, from 1 second to 1 minute."""
    return min(max(_FINEST_MS, log_ms // 1000), _COARSEST_FIRST_MS)


def _ladder(log_ms: int) -> Iterator[int]:
    """Windows from the shortest one to try up to the span of the log; at least one."""
    lowest = lowest_ms(log_ms)
    first = next(rung for rung in LADDER_MS if rung >= lowest)
    yield from (rung for rung in LADDER_MS if rung == first or lowest <= rung <= log_ms)
