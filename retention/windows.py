"""Windows: the spans of event time over which the records of a key are aggregated.

A window [start, end) holds the records with start <= t < end. Windows of fixed spans align to
1970-01-01 in UTC, as Spark's `window()` does:

| window | a record is in | ends |
|---|---|---|
| tumbling(size) | one window | every `size` |
| hopping(size, slide) | size / slide windows | every `slide` |
| cumulate(size, step) | those of its `size` that end after it | every `step`, all with one start |
| session(gap) | the session of its key | `gap` after the session's last record |

A window of a fixed span has its own key: the key and the window's end. It is open up to the last
millisecond before its end, so as a policy it is a lifetime. A session is an idle rule: a record at
exactly last + gap still belongs to it, so a life is idle one millisecond later.

Records fall into *slices*, the spans between two window ends. All records of a slice are in the
same windows.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from idlestate.errors import RefusedError
from idlestate.retention.durations import Duration, DurationError, duration_ms, format_duration
from idlestate.retention.policy import Policy
from idlestate.retention.shown_values import show

Ints = npt.NDArray[np.int64]

MOST_WINDOWS = 1_440
"""A record may be in at most this many windows: windows of a day that end every minute."""

WINDOW_START, WINDOW_END = "window_start", "window_end"
"""The columns shown for a window."""

WINDOW_PATTERN = r"^(tumbling|hopping|cumulate|session)\(([^,()]*)(?:,([^,()]*))?\)$"
"""The form of a window's text."""

_TEXT = re.compile(WINDOW_PATTERN)


class WindowError(RefusedError, ValueError):
    """A window is not valid; the text says how to fix it."""


class WindowKind(StrEnum):
    """How windows follow each other."""

    TUMBLING = "tumbling"
    HOPPING = "hopping"
    CUMULATE = "cumulate"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of an operator; made by `tumbling`, `hopping`, `cumulate` and `session`.

    Attributes:
        kind: how they follow each other.
        size_ms: the span of a window (the longest one for `cumulate`), or a session's gap.
        slide_ms: the time from one end to the next, or a session's gap.
    """

    kind: WindowKind
    size_ms: int
    slide_ms: int

    def __str__(self) -> str:
        """As text that `parse_window` reads."""
        spans = [format_duration(self.size_ms)]
        if self.kind in (WindowKind.HOPPING, WindowKind.CUMULATE):
            spans.append(format_duration(self.slide_ms))
        return f"{self.kind}({', '.join(spans)})"

    @property
    def is_session(self) -> bool:
        """Whether a window's end depends on its records."""
        return self.kind is WindowKind.SESSION

    @property
    def policy(self) -> Policy:
        """The policy by which its lives end."""
        if self.is_session:
            return Policy(
                idle_min_ms=self.size_ms + 1,
                idle_max_ms=self.size_ms + 1,
                min_gap_ms=0,
                chosen_by=f"window {self}",
            )
        # No record can return to a closed window.
        return Policy(max_lifetime_ms=self.size_ms - 1, remember_ms=0, chosen_by=f"window {self}")

    def slice_ends_ms(self, times_ms: Ints) -> Ints:
        """The first end of a window after each time."""
        return times_ms - times_ms % self.slide_ms + self.slide_ms

    def of_slices(self, ends_ms: Ints) -> tuple[Ints, Ints]:
        """The windows of slices with these ends.

        Returns:
            For each window, the position of its slice and the window's end (ms).
        """
        if self.kind is WindowKind.TUMBLING:
            return np.arange(len(ends_ms)), ends_ms
        counts = np.full(len(ends_ms), self.size_ms // self.slide_ms)
        if self.kind is WindowKind.CUMULATE:
            counts -= (ends_ms - 1) % self.size_ms // self.slide_ms
        at = np.repeat(np.arange(len(ends_ms)), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        return at, ends_ms[at] + (np.arange(len(at)) - first) * self.slide_ms

    def begins_ms(self, ends_ms: Ints) -> Ints:
        """When lives of windows with these ends count as created, so that all live equally long."""
        return ends_ms - self.size_ms

    def bounds_ms(self, created_at_ms: Ints, written_at_ms: Ints) -> tuple[Ints, Ints]:
        """Start and end of the windows of lives."""
        if self.is_session:
            return created_at_ms, written_at_ms + self.size_ms
        ends_ms = created_at_ms + self.size_ms
        if self.kind is WindowKind.CUMULATE:
            return ends_ms - 1 - (ends_ms - 1) % self.size_ms, ends_ms
        return created_at_ms, ends_ms


def tumbling(size: Duration) -> Windows:
    """Windows of one size, one after the other.

    Raises:
        WindowError: the size is not a duration of at least 2 ms.
    """
    size_ms = _span_ms("tumbling", size)
    return Windows(WindowKind.TUMBLING, size_ms, size_ms)


def hopping(size: Duration, slide: Duration) -> Windows:
    """Windows of one size that overlap: one starts every `slide`, which divides `size`.

    Raises:
        WindowError: the spans do not fit.
    """
    return _sliced(WindowKind.HOPPING, "slide", size, slide)


def cumulate(size: Duration, step: Duration) -> Windows:
    """Windows of `size`, each shown `step` by `step` as it fills; `step` divides `size`.

    Raises:
        WindowError: the spans do not fit.
    """
    return _sliced(WindowKind.CUMULATE, "step", size, step)


def session(gap: Duration) -> Windows:
    """Windows that end when a key has had no record for longer than `gap`.

    Raises:
        WindowError: the gap is not a duration of at least 2 ms.
    """
    gap_ms = _span_ms("session", gap)
    return Windows(WindowKind.SESSION, gap_ms, gap_ms)


def parse_window(text: str) -> Windows:
    """Read a window such as `hopping(10m, 1m)`.

    Raises:
        WindowError: it is not a valid window.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise WindowError(
            f"{show(text)} is not a window; use tumbling(10m), hopping(10m, 1m), "
            "cumulate(1h, 1m) or session(30m)"
        )
    name, *spans = (part and part.strip() for part in found.groups())
    given = [span for span in spans if span is not None]
    if name in (WindowKind.HOPPING, WindowKind.CUMULATE):
        if len(given) != 2:
            raise WindowError(f"{show(text)} needs two durations, such as {name}(1h, 1m)")
        return (hopping if name == WindowKind.HOPPING else cumulate)(*given)
    if len(given) != 1:
        raise WindowError(f"{show(text)} takes one duration, such as {name}(10m)")
    return (tumbling if name == WindowKind.TUMBLING else session)(*given)


def _sliced(kind: WindowKind, name: str, size: Duration, slide: Duration) -> Windows:
    size_ms, slide_ms = _span_ms(kind, size), _span_ms(f"{kind}: {name}", slide, least_ms=1)
    if slide_ms > size_ms or size_ms % slide_ms:
        raise WindowError(
            f"{kind}: size {format_duration(size_ms)} is not a multiple of {name} "
            f"{format_duration(slide_ms)}; use a {name} that divides the size"
        )
    if size_ms // slide_ms > MOST_WINDOWS:
        raise WindowError(
            f"{kind}: a record would be in up to {size_ms // slide_ms:,} windows; use a {name} of "
            f"at least {format_duration(-(-size_ms // MOST_WINDOWS))}"
        )
    return Windows(kind, size_ms, slide_ms)


def _span_ms(what: str, value: Duration, least_ms: int = 2) -> int:
    try:
        span_ms = duration_ms(value)
    except DurationError as error:
        raise WindowError(f"{what}: {error}") from error
    if span_ms < least_ms:
        raise WindowError(f"{what}: {format_duration(span_ms)} is too short; use at least 2ms")
    return span_ms
