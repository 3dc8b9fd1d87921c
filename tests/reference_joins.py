"""The slow reference of `join_asof`: one record at a time, as `tests.reference` does it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.reference import Record, Reference, Rule
from tests.reference_values import rank


class AsOfReference(Reference):
    """Each probe with the version that is newest at its time, if its life is open then."""

    def __init__(self, rule: Rule, probes: Sequence[str], versions: Sequence[str], how: str):
        super().__init__(rule, {})
        self.probes, self.versions, self.how = probes, versions, how
        self.newest: dict[Any, Mapping[str, Any]] = {}
        self.found: list[dict[str, Any]] = []

    def take(self, record: Record) -> None:
        assert record.t_ms is not None
        super().take(record)
        if not record.read:
            self.newest[record.key] = record.values
            return
        life = self.lives.get(record.key)
        is_open = life is not None and not self.has_ended(life, record.t_ms)
        if self.how == "inner" and not is_open:
            return
        version = self.newest[record.key] if is_open else dict.fromkeys(self.versions)
        self.found.append(
            {"key": record.key}
            | {name: record.values[name] for name in self.probes}
            | {name: version[name] for name in self.versions}
        )


def in_turn(records: Iterable[Record], versions: Sequence[str], order: str) -> list[Record]:
    """By time; versions before probes; versions by the order column, then by their values."""

    def turn(record: Record) -> Any:
        if record.read:
            return record.t_ms, True, []
        names = [order, *(name for name in versions if name != order)]
        return record.t_ms, False, [rank(record.values[name]) for name in names]

    return sorted(records, key=turn)
