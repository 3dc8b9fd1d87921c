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
        self.counts["duplicates"] = 0

    def take(self, record: Record) -> None:
        life = self.lives.get(record.key)
        assert record.t_ms is not None
        if self.keep == "last":
            super().take(record)
            return
        if life is not None:
            read_at = life.written_at if life.read_at is None else life.read_at
            t_ms = max(record.t_ms, life.written_at, read_at)
            if not self.has_ended(life, t_ms):
                self.counts["duplicates"] += 1
                self.drop(life, t_ms)
                return
        super().take(record)
        life = self.lives[record.key]
        began = life.created_at
        row = Row(record.key, life.results(), "update", began, began, batch_id=self.batch_id)
        self.firsts.append(row)
        life.aggregates = {name: WholeRecord(name, (), largest=False) for name in self.columns}

    def drop(self, life: Life, t_ms: int) -> None:
        """A duplicate: a read where some rule counts reads; one at the write's time is not kept."""
        self.counts["at_deadline"] += self.end(life)[0] == t_ms
        if ON_READ_AND_WRITE not in (self.rule.update, self.rule.ttl_update):
            return
        if self.rule.update == ON_READ_AND_WRITE:
            self.arm(life, t_ms)
        if t_ms > life.written_at:
            life.read_at = t_ms

    def create(self, key: tuple[object, ...], t_ms: int) -> Life:
        life = super().create(key, t_ms)
        for name in self.columns:
            life.aggregates[name] = WholeRecord(name, self.columns, largest=self.keep == "last")
        return life

    def rows(self) -> list[Row]:
        """Every row that comes out, whatever the cuts."""
        return [*self.firsts, *self.expired]


def by_value(batch: Iterable[Record], columns: Sequence[str]) -> list[Record]:
    """A batch in the sequence of a pipeline; what is equal in it, by value."""
    by_values = sorted(batch, key=lambda each: [rank(each.values[name]) for name in columns])
    return make_sequence(by_values)
