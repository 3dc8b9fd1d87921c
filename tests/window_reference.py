"""The slow reference of windows: one record at a time, in plain Python, as their definitions say.

A window of a fixed span is a list of records; a session is a list that grows and merges. Nothing is
shared with idlestate, nor with the reference of policies. Times are int milliseconds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.reference import Key, Record
from tests.reference_values import accumulator, rank


@dataclass
class Span:
    """A window of a key, with its records."""

    key: Key
    start_ms: int
    end_ms: int
    records: list[Record] = field(default_factory=list)

    def row(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """What is shown of it."""
        found = {name: accumulator(text) for name, text in texts.items()}
        for record in self.records:
            moment = (record.t_ms, *(rank(value) for value in record.order))
            for one in found.values():
                one.add(moment, record.values)
        newest = max(record.t_ms for record in self.records if record.t_ms is not None)
        shown = {name: one.result() for name, one in found.items()}
        return {
            "key": self.key,
            "window_start": self.start_ms,
            "window_end": self.end_ms,
            "created_at": self.start_ms,
            "last_access": newest,
            **shown,
        }


def tumbling(t_ms: int, size_ms: int) -> Iterator[tuple[int, int]]:
    """The windows of a time: the one of all that start at a multiple of the size."""
    yield from hopping(t_ms, size_ms, size_ms)


def hopping(t_ms: int, size_ms: int, slide_ms: int) -> Iterator[tuple[int, int]]:
    """Every [start, start + size) that holds the time, with start a multiple of the slide."""
    for start_ms in range(t_ms - size_ms, t_ms + 1):
        if start_ms % slide_ms == 0 and start_ms <= t_ms < start_ms + size_ms:
            yield start_ms, start_ms + size_ms


def cumulate(t_ms: int, size_ms: int, step_ms: int) -> Iterator[tuple[int, int]]:
    """Every [start, start + n steps) that holds the time, with start a multiple of the size."""
    start_ms = next(start for start in range(t_ms, t_ms - size_ms, -1) if start % size_ms == 0)
    for end_ms in range(start_ms + step_ms, start_ms + size_ms + 1, step_ms):
        if t_ms < end_ms:
            yield start_ms, end_ms


class FixedWindows:
    """Windows of fixed spans; `spans_of` gives those of a time."""

    def __init__(self, spans_of: Any, texts: Mapping[str, str]) -> None:
        self.spans_of = spans_of
        self.texts = texts
        self.open: dict[tuple[Key, int, int], Span] = {}
        self.closed: list[dict[str, Any]] = []
        self.touched: set[tuple[Key, int, int]] = set()

    def take(self, record: Record) -> None:
        """One record that is not late."""
        for start_ms, end_ms in self.spans_of(record.t_ms):
            at = (record.key, start_ms, end_ms)
            self.open.setdefault(at, Span(record.key, start_ms, end_ms)).records.append(record)
            self.touched.add(at)

    def close(self, watermark_ms: int) -> None:
        """End every window whose last millisecond the watermark has reached."""
        for at, span in list(self.open.items()):
            if watermark_ms >= span.end_ms - 1:
                self.closed.append(span.row(self.texts))
                del self.open[at]


class Sessions:
    """Sessions: a record merges every session of its key from which it is at most `gap` away."""

    def __init__(self, gap_ms: int) -> None:
        self.gap_ms = gap_ms
        self.open: list[Span] = []

    def take(self, record: Record) -> None:
        """One record that is not late."""
        assert record.t_ms is not None
        new = Span(record.key, record.t_ms, record.t_ms + self.gap_ms, [record])
        for other in [each for each in self.open if each.key == record.key]:
            if other.start_ms <= new.end_ms and new.start_ms <= other.end_ms:
                self.open.remove(other)
                new.start_ms = min(new.start_ms, other.start_ms)
                new.end_ms = max(new.end_ms, other.end_ms)
                new.records = [*other.records, *new.records]
        self.open.append(new)


def rows_of(spans: Sequence[Span], texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """What is shown of windows."""
    return [span.row(texts) for span in spans]
