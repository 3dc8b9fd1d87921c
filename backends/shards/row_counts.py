"""Counts of an operator's input rows, and of late and rejected rows by reason."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import reduce

from idlestate.retention.rules import NEVER_MS


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The operator's input rows, and by reason the rows that changed nothing."""

    input: int = 0
    late: int = 0
    null_time: int = 0
    too_old: int = 0
    too_far_ahead: int = 0
    malformed: int = 0
    null_key: int = 0
    function_error: int = 0
    highest_ms: int = NEVER_MS
    """The highest event time of accepted rows; `NEVER_MS` if there are none. The only figure that
    is not a count.
    """

    @property
    def rejected(self) -> int:
        """Rows rejected for any reason."""
        return sum(getattr(self, name) for name in _REASONS)

    def plus(self, other: "RowCounts") -> "RowCounts":
        """The sum of both counts."""
        mine, theirs = self.as_dict(), other.as_dict()
        total = {name: mine[name] + theirs[name] for name in mine}
        total["highest_ms"] = max(self.highest_ms, other.highest_ms)
        return RowCounts(**total)

    def as_dict(self) -> dict[str, int]:
        """The figures by name."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(each.name for each in fields(RowCounts))
_REASONS = tuple(name for name in _NAMES if name not in ("input", "late", "highest_ms"))

RowsByInput = Mapping[str, RowCounts]
"""Counts by input name, which is empty if the operator has only one input."""


def to_text(counts: RowsByInput) -> str:
    """Counts as JSON."""
    return json.dumps({name: each.as_dict() for name, each in counts.items()})


def of_texts(texts: Iterable[str]) -> dict[str, RowCounts]:
    """The sum of counts that were written as JSON."""
    found: dict[str, RowCounts] = {}
    for text in texts:
        for name, facts in json.loads(text).items():
            found[name] = found.get(name, RowCounts()).plus(RowCounts(**facts))
    return found


def total(counts: RowsByInput) -> RowCounts:
    """The counts of all inputs."""
    return reduce(RowCounts.plus, counts.values(), RowCounts())
