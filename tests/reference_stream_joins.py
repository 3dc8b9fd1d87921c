"""The slow reference of `join`: one row at a time, against every row of the other input."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class JoinedRow:
    """A row of one input; `end_ms` of a regular join without retention is None."""

    key: tuple[Any, ...]
    t_ms: int
    value: Any
    is_matched: bool = False


@dataclass
class StreamJoinReference:
    """Rows in state and the rows emitted so far, as (key, left value, right value).

    `spans_ms` says for how long rows of the left and of the right input are kept; None: forever.
    """

    how: str
    between: tuple[int, int] | None
    spans_ms: tuple[int | None, int | None]
    rows: tuple[list[JoinedRow], list[JoinedRow]] = field(default_factory=lambda: ([], []))
    found: list[tuple[Any, Any, Any]] = field(default_factory=list)

    def take(self, side: int, row: JoinedRow) -> None:
        """A row that is not late."""
        for other in self.partners(side, row):
            pair = (row, other) if side == 0 else (other, row)
            if self.how in ("inner", "left", "right", "full"):
                self.found.append((row.key, pair[0].value, pair[1].value))
            if self.how == "semi" and not pair[0].is_matched:
                self.found.append((row.key, pair[0].value, None))
            row.is_matched = other.is_matched = True
        if None in row.key:
            self.drop(side, row)
        else:
            self.rows[side].append(row)

    def partners(self, side: int, row: JoinedRow) -> Iterator[JoinedRow]:
        if None in row.key:
            return
        for other in self.rows[1 - side]:
            if other.key == row.key and self.match(*((row, other) if side == 0 else (other, row))):
                yield other

    def match(self, left: JoinedRow, right: JoinedRow) -> bool:
        at_ms = max(left.t_ms, right.t_ms)
        for side, row in enumerate((left, right)):
            span_ms = self.spans_ms[side]
            if span_ms is not None and row.t_ms + span_ms <= at_ms:
                return False
        if self.between is None:
            return True
        return self.between[0] <= right.t_ms - left.t_ms <= self.between[1]

    def end_ms(self, side: int, row: JoinedRow) -> int | None:
        """When no later row can match it."""
        ends = []
        if self.spans_ms[side] is not None:
            ends.append(row.t_ms + self.spans_ms[side])
        if self.between is not None:
            ends.append(row.t_ms + (self.between[1] if side == 0 else -self.between[0]))
        return min(ends, default=None)

    def sweep(self, watermark_ms: int) -> None:
        """No row at or before the watermark comes any more."""
        for side in (0, 1):
            for row in list(self.rows[side]):
                end_ms = self.end_ms(side, row)
                if end_ms is not None and end_ms <= watermark_ms:
                    self.rows[side].remove(row)
                    self.drop(side, row)

    def drop(self, side: int, row: JoinedRow) -> None:
        """A row leaves; without a match it is emitted, once, where the kind of join says so."""
        if row.is_matched:
            return
        if side == 0 and self.how in ("left", "full", "anti"):
            self.found.append((row.key, row.value, None))
        if side == 1 and self.how in ("right", "full"):
            self.found.append((row.key, None, row.value))
