"""The slow reference of frames: every frame is looked for among all rows of its life."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.reference import Key, Record, Reference, Rule
from tests.reference_values import accumulator, rank


@dataclass(frozen=True)
class Turn:
    """A record and the creation of the life it belongs to."""

    record: Record
    created_at: int


class OverReference:
    """Records with the aggregates of their frames.

    `unit` is `rows` or `range`; a `size` of None is the whole life. `columns` order the rows of one
    time.
    """

    def __init__(
        self, rule: Rule, aggregates: Mapping[str, str], unit: str, size: int | None
    ) -> None:
        self.lives = Reference(rule, {})
        self.aggregates, self.unit, self.size = aggregates, unit, size

    def run(self, records: Sequence[Record], columns: Sequence[str]) -> list[tuple[Record, Any]]:
        """Each record with its results, those of one key in their order."""
        turns: dict[Key, list[Turn]] = defaultdict(list)
        for record in sorted(
            records,
            key=lambda each: (
                each.t_ms,
                [rank(value) for value in each.order],
                [rank(each.values[name]) for name in columns],
            ),
        ):
            self.lives.take(record)
            created_at = self.lives.lives[record.key].created_at
            turns[record.key].append(Turn(record, created_at))
        return [
            (turn.record, self._results(rows, at))
            for rows in turns.values()
            for at, turn in enumerate(rows)
        ]

    def _results(self, rows: Sequence[Turn], at: int) -> dict[str, Any]:
        row = rows[at]
        if self.unit == "rows":
            upto = [each for each in rows[: at + 1] if each.created_at == row.created_at]
            frame = upto if self.size is None else upto[-self.size :]
        else:
            assert row.record.t_ms is not None
            assert self.size is not None
            frame = [
                each
                for each in rows
                if each.created_at == row.created_at
                and each.record.t_ms is not None
                and row.record.t_ms - self.size <= each.record.t_ms <= row.record.t_ms
            ]
        found = {name: accumulator(text) for name, text in self.aggregates.items()}
        for each in frame:
            moment = (each.record.t_ms, *(rank(value) for value in each.record.order))
            for one in found.values():
                one.add(moment, each.record.values)
        return {name: one.result() for name, one in found.items()}
