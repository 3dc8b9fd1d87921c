"""The two inputs of an operator: the record of each, and the watermark that both allow.

By default, an input without rows holds the watermark back. With `idle_after`, it stops doing so
after it has had no rows for this long, measured by batch times, until its next row. Both facts are
part of the state, so a repeated batch finds the same values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from idlestate.backends.shards.row_counts import RowCounts, RowsByInput
from idlestate.retention.rules import NEVER_MS


@dataclass(frozen=True, slots=True)
class InputTerms:
    """How long an input may hold the watermark back."""

    delay_ms: int
    idle_after_ms: int | None = None
    """It no longer holds the watermark back after this long without rows; None: it always does."""


@dataclass(frozen=True, slots=True)
class InputRecord:
    """The state of an input after a batch."""

    rows: RowCounts = field(default_factory=RowCounts)
    quiet: tuple[int, int] | None = None
    """Times (ms) of the first and the last batch since its last row; None: the last batch had one.
    Only batches with rows of the other input, or with rejected rows, count.
    """

    def after(self, more: RowCounts, time_ms: int) -> "InputRecord":
        """The record after a batch of this time with these rows."""
        rows = self.rows.plus(more)
        if more.input > more.rejected:
            return InputRecord(rows)
        return InputRecord(rows, (self.quiet[0] if self.quiet else time_ms, time_ms))

    def is_idle(self, terms: InputTerms) -> bool:
        """Whether it no longer holds the watermark back, because it has had no rows for so long."""
        if self.quiet is None or terms.idle_after_ms is None:
            return False
        first_ms, last_ms = self.quiet
        return last_ms - first_ms >= terms.idle_after_ms

    def reached_ms(self, terms: InputTerms) -> int | None:
        """The watermark of this input alone: a row is late iff its time is not after it. None
        before the first row.
        """
        if self.rows.highest_ms == NEVER_MS:
            return None
        # One millisecond less: a row at the highest time minus the delay is not late.
        return self.rows.highest_ms - terms.delay_ms - 1

    def started_again(self) -> "InputRecord":
        """The record for another query, whose rows may be older."""
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
    """The watermark that both inputs allow after rows of one input; None if there is none yet.

    Args:
        name: the input that has rows.
        highest_ms: the highest event time of these rows; `NEVER_MS` if no row counts.
        inputs: both inputs, as of the batch before.
        terms: the terms of both inputs.
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
