"""Counts of the input rows of an operator, and of late and rejected ones by reason."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Input rows of the operator, and by reason those that changed nothing."""

    input: int = 0
    late: int = 0
    null_time: int = 0
    too_old: int = 0
    too_far_ahead: int = 0
    malformed: int = 0
    null_key: int = 0
    function_error: int = 0
    highest_ms: int = 0
    """The highest event time of accepted rows; the only figure that is not a count."""

    def plus(self, other: "RowCounts") -> "RowCounts":
        """The sum of both."""
        mine, theirs = self.as_dict(), other.as_dict()
        total = {name: mine[name] + theirs[name] for name in mine}
        total["highest_ms"] = max(self.highest_ms, other.highest_ms)
        return RowCounts(**total)

    def as_dict(self) -> dict[str, int]:
        """The figures by name."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(each.name for each in fields(RowCounts))
