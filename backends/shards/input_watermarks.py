"""The two inputs of an operator: what is noted of each, and the watermark that both allow.

By default an input without rows holds the watermark back. With `idle_after` it no longer does once
its batches have had no row of it for so long, by the times of these batches, until one has a row
again. Both facts are part of the state, so a batch that runs again finds what it found before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from idlestate.backends.shards.row_counts import RowCounts, RowsByInput
from idlestate.retention.rules import NEVER_MS


@dataclass(frozen=True, slots=True)
class InputTerms:
    """How far an input may hold the watermark back."""

    delay_ms: int
    idle_after_ms: int | None = None
    """After so long without rows, not at all; None: for ever."""


@dataclass(frozen=True, slots=True)
class InputRecord:
    """An input after a batch."""

    rows: RowCounts = field(default_factory=RowCounts)
    quiet: tuple[int, int] | None = None
    """The times (ms) of the first and the last batch since its last row; None: the last batch had
    one. Only batches with rows of the other input, or rejected ones, are counted."""

    def after(self, more: RowCounts, time_ms: int) -> "InputRecord":
        """The record after a batch of this time with these rows."""
        rows = self.rows.plus(more)
        if more.input > more.rejected:
            return InputRecord(rows)
        return InputRecord(rows, (self.quiet[0] if self.quiet else time_ms, time_ms))

    def is_idle(self, terms: InputTerms) -> bool:
        """Whether it has had no rows for so long that it no longer holds the watermark back."""
        if self.quiet is None or terms.idle_after_ms is None:
            return False
        first_ms, last_ms = self.quiet
        return last_ms - first_ms >= terms.idle_after_ms

    def reached_ms(self, terms: InputTerms) -> int | None:
        """The watermark of this input alone: a row is late iff its time is not after it; None
        before the first row.
        """
        if self.rows.highest_ms == NEVER_MS:
            return None
        # One millisecond more: a row at the highest time less the delay is not late.
        return self.rows.highest_ms - terms.delay_ms - 1

    def started_again(self) -> "InputRecord":
        """The record for another query, which may begin with older rows."""
        return InputRecord(replace(self.rows, highest_ms=NEVER_MS))

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes."""
        return {"rows": self.rows.as_dict(), "quiet": self.quiet}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "InputRecord":
        """Read it back."""
        quiet = facts["quiet"]
        return cls(RowCounts(**facts["rows"]), quiet and (quiet[0], quiet[1]))


Inputs = Mapping[str, InputRecord]
"""Both inputs by name."""


def counted(inputs: Inputs, more: RowsByInput, time_ms: int) -> dict[str, InputRecord]:
    """Both inputs after a batch of this time with these rows."""
    return {
        name: inputs.get(name, InputRecord()).after(rows, time_ms)
        for name, rows in more.items()
        if name
    }


def joint_watermark_ms(
    name: str, highest_ms: int, inputs: Inputs, terms: Mapping[str, InputTerms]
) -> int | None:
    """The watermark that both inputs allow after rows of one of them; None: none yet.

    Args:
        name: the input that has rows.
        highest_ms: the highest event time of these rows; `NEVER_MS` if none counts.
        inputs: both, as of the batch before.
        terms: of both.
    """
    own = inputs.get(name, InputRecord())
    highest_ms = max(own.rows.highest_ms, highest_ms)
    known = {**inputs, name: replace(own, rows=replace(own.rows, highest_ms=highest_ms))}
    reached_ms = [
        known.get(each, InputRecord()).reached_ms(of)
        for each, of in terms.items()
        if each == name or not known.get(each, InputRecord()).is_idle(of)
    ]
    found = [each for each in reached_ms if each is not None]
    return min(found) if len(found) == len(reached_ms) else None
