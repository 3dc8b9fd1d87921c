"""The slow reference of `deduplicate`: one record at a time, as `tests.reference` does it."""

from collections.abc import Iterable, Sequence

from tests.reference import ON_READ_AND_WRITE, Life, Record, Reference, Row, Rule
from tests.reference_pipeline import make_sequence
from tests.reference_values import Moment, Values, rank


class WholeRecord:
    """One column of the record that is kept: the first or last by moment, then by all columns."""

    def __init__(self, column: str, columns: Sequence[str], *, largest: bool) -> None:
        self.column, self.columns, self.largest = column, columns, largest
        self.best: tuple[object, ...] | None = None
        self.value: object = None

    def add(self, moment: Moment, values: Values) -> None:
        ranked = (*moment, *(rank(values[name]) for name in self.columns))
        if self.best is None or (ranked > self.best if self.largest else ranked < self.best):
            self.best, self.value = ranked, values[self.column]

    def result(self) -> object:
        return self.value


class DeduplicationReference(Reference):
    """A life's first record, shown as it begins; or its last one, shown as it ends."""

    def __init__(self, rule: Rule, columns: Sequence[str], keep: str) -> None:
        super().__init__(rule, {})
        self.columns, self.keep = tuple(columns), keep
        self.firsts: list[Row] = []

    def take(self, record: Record) -> None:
        life = self.lives.get(record.key)
        assert record.t_ms is not None
        if self.keep == "last" or life is None:
            super().take(record)
            return
        last_ms = life.written_at if life.read_at is None else max(life.written_at, life.read_at)
        t_ms = max(record.t_ms, last_ms)
        if self.has_ended(life, t_ms):
            super().take(record)
        else:
            self.counts["at_deadline"] += self.end(life)[0] == t_ms
            self.counts["duplicates"] = self.counts.get("duplicates", 0) + 1
            if t_ms > last_ms and ON_READ_AND_WRITE in (self.rule.update, self.rule.ttl_update):
                self.read(life, t_ms)

    def create(self, key: tuple[object, ...], t_ms: int) -> Life:
        life = super().create(key, t_ms)
        for name in self.columns:
            life.aggregates[name] = WholeRecord(name, self.columns, largest=self.keep == "last")
        return life

    def touch(self, life: Life) -> None:
        super().touch(life)
        if self.keep == "first" and life.read_at is None:
            (key,) = (key for key, one in self.lives.items() if one is life)
            self.firsts.append(Row(key, life.results(), "update", life.created_at, life.created_at))
            life.aggregates = {name: WholeRecord(name, (), largest=False) for name in self.columns}

    def rows(self) -> list[Row]:
        """Every row that comes out, whatever the cuts."""
        return [*self.firsts, *self.expired]


def by_value(batch: Iterable[Record], columns: Sequence[str]) -> list[Record]:
    """A batch in the sequence of a pipeline; what is equal in it, by value."""
    by_values = sorted(batch, key=lambda each: [rank(each.values[name]) for name in columns])
    return make_sequence(by_values)
