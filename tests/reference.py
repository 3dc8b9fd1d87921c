"""The slow reference: one record at a time, in plain Python, sharing nothing with idlestate.

It is what the fast tables are compared with, so it follows the rule word by word and is never
clever. Times are int milliseconds. `Reference` takes one given sequence of records, sweeps and
policy changes; `reference_pipeline` makes that sequence from batches as a pipeline does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.reference_values import Accumulator, Moment, accumulator, rank

FOREVER_MS = 2**63 - 1
ON_CREATE_AND_WRITE = "on_create_and_write"
ON_READ_AND_WRITE = "on_read_and_write"

COUNTED = (
    *("created", "returning_keys", "lifetime", "ttl", "idle"),
    # What a sequence put to the test:
    *("rearms", "skipped_rearms", "at_deadline", "closed_in_its_batch"),
)

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Rule:
    """A policy as plain numbers; 0 is off."""

    idle_min_ms: int = 0
    idle_max_ms: int = 0
    update: str = ON_CREATE_AND_WRITE
    ttl_ms: int = 0
    ttl_update: str = ON_CREATE_AND_WRITE
    max_lifetime_ms: int = 0
    remember_ms: int | None = None

    @property
    def idle_on(self) -> bool:
        return self.idle_min_ms > 1

    @property
    def remember_for_ms(self) -> int:
        if self.remember_ms is not None:
            return self.remember_ms
        return (self.idle_max_ms if self.idle_on else 0) or self.ttl_ms or self.max_lifetime_ms


@dataclass(frozen=True)
class Record:
    """One input row. `t_ms` is the event's own time; None when the row has none."""

    key: Key
    t_ms: int | None
    values: Mapping[str, Any] = field(default_factory=dict)
    read: bool = False
    order: tuple[Any, ...] = ()


@dataclass
class Life:
    """From the first write to the deadline."""

    created_at: int
    written_at: int
    read_at: int | None = None
    armed_at: int | None = None
    cleanup_at: int | None = None
    aggregates: dict[str, Accumulator] = field(default_factory=dict)
    row_last_access: int = 0
    batch_id: int = 0

    def results(self) -> dict[str, Any]:
        return {name: one.result() for name, one in self.aggregates.items()}


@dataclass(frozen=True)
class State:
    """One open life as it is read back."""

    aggregates: dict[str, Any]
    created_at: int
    written_at: int
    read_at: int | None
    armed_at: int | None
    last_access: int
    cleanup_at: int | None
    deadline: int | None
    reason: str | None


@dataclass(frozen=True)
class Row:
    """A life's last row: its expire row, else its newest update."""

    key: Key
    aggregates: dict[str, Any]
    change: str
    created_at: int
    last_access: int
    expired_at: int | None = None
    reason: str | None = None
    batch_id: int = 0


def plus(t_ms: int, span_ms: int) -> int:
    """The saturating sum."""
    return min(t_ms + span_ms, FOREVER_MS)


class Reference:
    """Keyed state under a rule, one record at a time."""

    def __init__(self, rule: Rule, aggregates: Mapping[str, str]) -> None:
        self.rule = rule
        self.specs = dict(aggregates)
        self.lives: dict[Key, Life] = {}
        self.ended: dict[Key, int] = {}
        self.absences_ms: list[int] = []
        self.expired: list[Row] = []
        self.batch_id = 0
        self.counts: dict[str, int] = dict.fromkeys(COUNTED, 0)

    # ---- the rule

    def last_access(self, life: Life, update: str) -> int:
        """The last write, or with reads counting the later of the last write and read."""
        if update == ON_READ_AND_WRITE and life.read_at is not None:
            return max(life.written_at, life.read_at)
        return life.written_at

    def end(self, life: Life) -> tuple[int | None, str | None]:
        """Deadline and reason; on a tie lifetime before ttl before idle."""
        ends: list[tuple[int, str]] = []
        if self.rule.max_lifetime_ms:
            ends.append((plus(life.created_at, self.rule.max_lifetime_ms), "lifetime"))
        if self.rule.ttl_ms:
            base = self.last_access(life, self.rule.ttl_update)
            ends.append((plus(base, self.rule.ttl_ms), "ttl"))
        if life.cleanup_at is not None:
            ends.append((life.cleanup_at, "idle"))
        if not ends:
            return None, None
        return min(ends, key=lambda one: one[0])  # the first of equals

    def has_ended(self, life: Life, t_ms: int) -> bool:
        deadline, _ = self.end(life)
        return deadline is not None and deadline <= t_ms

    def arm(self, life: Life, t_ms: int) -> None:
        """An access at t that counts for the idle rule."""
        if not self.rule.idle_on:
            return
        if life.armed_at is not None:
            assert life.cleanup_at is not None
            if plus(t_ms, self.rule.idle_min_ms) <= life.cleanup_at:
                self.counts["skipped_rearms"] += 1
                return
            self.counts["rearms"] += 1
        life.armed_at = t_ms
        life.cleanup_at = plus(t_ms, self.rule.idle_max_ms)

    def change_rule(self, rule: Rule) -> None:
        """A new policy for the lives that are open; what was closed stays closed."""
        self.rule = rule
        for life in self.lives.values():
            if not rule.idle_on:
                life.cleanup_at = None
                continue
            last = self.last_access(life, rule.update)
            # Never armed, as the rule was off: the next access that counts arms.
            armed = last if life.armed_at is None else life.armed_at
            life.cleanup_at = max(plus(armed, rule.idle_max_ms), plus(last, rule.idle_min_ms))

    # ---- records and sweeps

    def take(self, record: Record) -> None:
        """One record; `record.t_ms` must be set."""
        assert record.t_ms is not None
        t_ms, life = record.t_ms, self.lives.get(record.key)
        if life is not None:
            t_ms = max(t_ms, life.written_at)
            if life.read_at is not None:
                t_ms = max(t_ms, life.read_at)
            self.counts["at_deadline"] += self.end(life)[0] == t_ms
        if record.read:
            if life is not None and not self.has_ended(life, t_ms):
                self.read(life, t_ms)
            return
        if life is not None and self.has_ended(life, t_ms):
            self.counts["closed_in_its_batch"] += life.batch_id == self.batch_id
            self.close(record.key)
            life = None
        if life is None:
            life = self.create(record.key, t_ms)
        else:
            life.written_at = t_ms
            self.arm(life, t_ms)
        moment: Moment = (record.t_ms, *(rank(value) for value in record.order))
        for one in life.aggregates.values():
            one.add(moment, record.values)
        self.touch(life)

    def read(self, life: Life, t_ms: int) -> None:
        life.read_at = t_ms
        if self.rule.update == ON_READ_AND_WRITE:
            self.arm(life, t_ms)
        self.touch(life)

    def touch(self, life: Life) -> None:
        """What an update row of this moment would say, beside the aggregates."""
        life.row_last_access = self.last_access(life, self.rule.update)
        life.batch_id = self.batch_id

    def create(self, key: Key, t_ms: int) -> Life:
        life = Life(created_at=t_ms, written_at=t_ms)
        life.aggregates = {name: accumulator(text) for name, text in self.specs.items()}
        self.arm(life, t_ms)
        self.lives[key] = life
        self.counts["created"] += 1
        ended_at = self.ended.get(key)
        if ended_at is not None and t_ms - ended_at <= self.rule.remember_for_ms:
            self.counts["returning_keys"] += 1
            self.absences_ms.append(max(t_ms - ended_at, 0))
        return life

    def close(self, key: Key) -> None:
        """The life goes, with one expired record that carries its deadline."""
        life = self.lives.pop(key)
        deadline, reason = self.end(life)
        assert deadline is not None
        assert reason is not None
        self.ended[key] = deadline
        self.counts[reason] += 1
        self.expired.append(
            Row(
                key=key,
                aggregates=life.results(),
                change="expire",
                created_at=life.created_at,
                last_access=self.last_access(life, self.rule.update),
                expired_at=deadline,
                reason=reason,
                batch_id=self.batch_id,
            )
        )

    def sweep(self, t_ms: int) -> None:
        """Close every life that has ended at t."""
        for key in [key for key, life in self.lives.items() if self.has_ended(life, t_ms)]:
            self.close(key)

    # ---- what is compared

    def last_rows(self) -> list[Row]:
        """The last row of every life there ever was."""
        open_rows = [
            Row(
                key=key,
                aggregates=life.results(),
                change="update",
                created_at=life.created_at,
                last_access=life.row_last_access,
                batch_id=life.batch_id,
            )
            for key, life in self.lives.items()
        ]
        return [*self.expired, *open_rows]

    def states(self) -> dict[Key, State]:
        """The open lives as they are read back."""
        found = {}
        for key, life in self.lives.items():
            deadline, reason = self.end(life)
            found[key] = State(
                aggregates=life.results(),
                created_at=life.created_at,
                written_at=life.written_at,
                read_at=life.read_at,
                armed_at=life.armed_at,
                last_access=self.last_access(life, self.rule.update),
                cleanup_at=life.cleanup_at,
                deadline=deadline,
                reason=reason,
            )
        return found
