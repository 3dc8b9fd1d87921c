"""The record of a shard: the runs of its tables, and its exact counts.

Spark's state store, or the sidecar's store, holds it as one value, and so holds every version of
the shard. Layout, version 8: 4 bytes `IDS8`; a big-endian uint32 n; n bytes of JSON (the fields of
`ShardRecord` without the sketch); the 4,096 registers of the sketch of keys ever seen.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any

import numpy as np

from idlestate.backends.runs.sweeps import Sweep, Sweeps
from idlestate.backends.shards import keys_seen_sketch
from idlestate.backends.shards.input_watermarks import InputRecord, counted
from idlestate.backends.shards.key_ages import KeyAges
from idlestate.backends.shards.key_counts import KeyCounts
from idlestate.backends.shards.row_counts import RowCounts, RowsByInput, total
from idlestate.backends.shards.stored_ttls import StoredTtls
from idlestate.errors import DamagedStateError
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS

OPEN, REMEMBERED = "open", "remembered"
"""The tables of every shard: open lives, and keys that ended."""
HELD = "held"
"""The table of waiting rows, for operators that process rows in order."""
RIGHT, MATCHED, RIGHT_MATCHED = "right", "matched", "right_matched"
"""Additional tables of a join, whose left rows are the open lives: right rows, and for either
input, the rows matched since they were written.
"""
ENTRIES = "entries"
"""Prefix of the names of the entry tables of a function's large lists and maps."""
LIVES = (OPEN, RIGHT)
"""The tables of open lives."""
_MAGIC = b"IDS8"
_RECENT = 16


class RecordError(DamagedStateError, ValueError):
    """A shard's record cannot be read: another version of idlestate wrote it."""


@dataclass(frozen=True, slots=True)
class RunRef:
    """A reference to a stored run: its name, and facts that are known without reading it.

    Attributes:
        name: unique in the operator.
        version: the batch, or the version of the table, that wrote it.
        rows: its number of rows.
        bytes: its size.
        segments: its number of segments.
        checksum: of a file, the checksum of its table of checksums
            (`idlestate.backends.runs.block_checksums`).
    """

    name: str
    version: int
    rows: int
    bytes: int
    segments: int = 1
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class TableRecord:
    """The runs of a table, and facts that are known without reading them."""

    runs: tuple[RunRef, ...] = ()
    """Oldest to newest."""
    sweeps: Sweeps = ()
    """The sweeps that apply to the oldest run."""
    live: int = 0
    """Live rows; runs also contain shadowed and swept ones."""

    @property
    def rows(self) -> int:
        """Rows in the runs."""
        return sum(ref.rows for ref in self.runs)

    @property
    def bytes(self) -> int:
        """Bytes of the runs."""
        return sum(ref.bytes for ref in self.runs)

    @property
    def live_bytes(self) -> int:
        """Bytes of the live rows, estimated by their share of all rows."""
        return self.bytes * self.live // max(self.rows, 1)

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes."""
        return {
            "runs": [astuple(ref) for ref in self.runs],
            "sweeps": [[each.policy.to_json(), each.to_ms, each.batch_id] for each in self.sweeps],
            "live": self.live,
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "TableRecord":
        """Read it back."""
        sweeps = tuple(
            Sweep(Policy.from_json(policy), to_ms, version)
            for policy, to_ms, version in facts["sweeps"]
        )
        return cls(tuple(RunRef(*ref) for ref in facts["runs"]), sweeps, facts["live"])


@dataclass(frozen=True, slots=True)
class Dropped:
    """A file that the record no longer names; it is removed when no retained version names it."""

    name: str
    version: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A shard between two batches, without its rows.

    Attributes:
        uid, shard: the operator, and the shard's number.
        tables: its tables by name.
        dropped: runs that only older versions name.
        tally: counts of keys.
        rows: counts of rows.
        inputs: the operator's two inputs by name, in the shard that counts them.
        time_ms: the highest time at which lives were closed: W(N), or the batch time.
        shown_ms: how far windows were shown last (`early_results`).
        newest_ms: the highest event time so far, in any shard.
        next_end_ms: no open life ends before this; it may be slightly early.
        ages: deadlines and last accesses of open lives at the last scan.
        timer_ms: the event-time timer that Spark has for the shard.
        recent: the last batches: batch id, time reached (ms), live keys, keys ever seen.
        ttls: for a function, the times to live under which its lives are stored.
        seen: a sketch of every key that ever had a life.
        file: the copy of this record next to the runs (`idlestate.backends.files.record_copies`);
            empty if there is none.
        file_bytes: the size of the copy.
    """

    uid: str = ""
    shard: int = 0
    tables: Mapping[str, TableRecord] = field(default_factory=dict)
    dropped: tuple[Dropped, ...] = ()
    tally: KeyCounts = field(default_factory=KeyCounts)
    rows: RowCounts = field(default_factory=RowCounts)
    inputs: Mapping[str, InputRecord] = field(default_factory=dict)
    time_ms: int = 0
    shown_ms: int = 0
    newest_ms: int = 0
    next_end_ms: int = FOREVER_MS
    ages: KeyAges = field(default_factory=KeyAges)
    timer_ms: int | None = None
    recent: tuple[tuple[int, int, int, int], ...] = ()
    ttls: StoredTtls = field(default_factory=StoredTtls)
    seen: keys_seen_sketch.Registers = field(default_factory=keys_seen_sketch.empty, compare=False)
    file: str = ""
    file_bytes: int = field(default=0, compare=False)

    def table(self, name: str) -> TableRecord:
        """The table with this name; empty if nothing was written to it."""
        return self.tables.get(name, TableRecord())

    @property
    def current(self) -> TableRecord:
        """Open lives."""
        return self.table(OPEN)

    @property
    def remembered(self) -> TableRecord:
        """Keys that ended."""
        return self.table(REMEMBERED)

    @property
    def held(self) -> TableRecord:
        """Rows that wait for the watermark."""
        return self.table(HELD)

    @property
    def files(self) -> set[str]:
        """The names of its files: the copy of the record, and the runs."""
        return {ref.name for ref in self.runs} | ({self.file} if self.file else set())

    @property
    def open_tables(self) -> tuple[TableRecord, ...]:
        """The tables of open lives: one, or several for a join or a function."""
        further = map(self.table, (RIGHT, MATCHED, RIGHT_MATCHED))
        return (self.current, *further, *self.entry_tables)

    @property
    def entry_tables(self) -> tuple[TableRecord, ...]:
        """The entry tables of a function's large lists and maps."""
        return tuple(each for name, each in self.tables.items() if name.startswith(ENTRIES))

    @property
    def live_keys(self) -> int:
        """Open lives; for a join, the rows in state."""
        return sum(self.table(name).live for name in LIVES)

    @property
    def dead_bytes(self) -> int:
        """Bytes of runs that only older versions name, and of dead rows."""
        stale = sum(table.bytes - table.live_bytes for table in self.tables.values())
        return stale + sum(each.bytes for each in self.dropped)

    @property
    def runs(self) -> tuple[RunRef, ...]:
        """All runs of the shard."""
        return tuple(ref for table in self.tables.values() for ref in table.runs)

    def keys_ever_seen(self, policy: Policy) -> int:
        """Number of keys ever seen: exact if every expired key is remembered, else an estimate.

        For a join it is an estimate, because ended rows are not remembered.
        """
        if policy.remember_for_ms == FOREVER_MS and RIGHT not in self.tables:
            return self.tally.created - self.tally.returning_keys
        return round(keys_seen_sketch.estimate(self.seen))

    @property
    def first_end_ms(self) -> int:
        """Like `next_end_ms`, but without shadowed rows, if these are known."""
        if self.next_end_ms == NEVER_MS:
            return NEVER_MS
        return max(self.next_end_ms, self.ages.first_end_ms)

    def counted(self, more: RowsByInput, time_ms: int) -> "ShardRecord":
        """The record after counting the rows of a batch with this time; unchanged if there are no
        task counts.
        """
        inputs = counted(self.inputs, more, time_ms) or self.inputs
        return replace(self, rows=self.rows.plus(total(more)), inputs=inputs)

    def for_another_query(self) -> "ShardRecord":
        """The record for another query, whose inputs may start with older rows."""
        inputs = {name: each.started_again() for name, each in self.inputs.items()}
        ttls = replace(self.ttls, swept_ms=NEVER_MS)
        return replace(self, inputs=inputs, newest_ms=0, ttls=ttls)

    def superseding(self, before: "ShardRecord", version: int) -> "ShardRecord":
        """The record with the files that only its predecessor names marked as dropped."""
        kept = {ref.name for ref in self.runs}
        gone = [
            Dropped(ref.name, version, ref.bytes) for ref in before.runs if ref.name not in kept
        ]
        if before.file:
            gone.append(Dropped(before.file, version, before.file_bytes))
        return replace(self, dropped=(*self.dropped, *gone), file="")

    def with_recent(self, batch_id: int, policy: Policy) -> "ShardRecord":
        """The record with this batch added to the last ones."""
        reached_ms = max(self.time_ms, self.rows.highest_ms)
        point = (batch_id, reached_ms, self.live_keys, self.keys_ever_seen(policy))
        return replace(self, recent=(*self.recent, point)[-_RECENT:])

    def encode(self) -> bytes:
        """The record as a value."""
        facts = {
            "uid": self.uid,
            "shard": self.shard,
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "dropped": [(each.name, each.version, each.bytes) for each in self.dropped],
            "tally": asdict(self.tally),
            "rows": self.rows.as_dict(),
            "time_ms": self.time_ms,
            "shown_ms": self.shown_ms,
            "newest_ms": self.newest_ms,
            "next_end_ms": self.next_end_ms,
            "ages": self.ages.to_json(),
            "timer_ms": self.timer_ms,
            "recent": self.recent,
            "file": self.file,
        }
        if self.inputs:
            facts["inputs"] = {name: each.to_json() for name, each in self.inputs.items()}
        if self.ttls.of_states:
            facts["ttls"] = self.ttls.to_json()
        text = json.dumps(facts, separators=(",", ":")).encode()
        return _MAGIC + struct.pack(">I", len(text)) + text + self.seen.tobytes()

    @classmethod
    def decode(cls, value: bytes) -> "ShardRecord":
        """Read it back.

        Raises:
            RecordError: it has another version.
        """
        if value[:4] != _MAGIC:
            raise RecordError(
                f"a shard's state begins with {value[:4]!r}, not {_MAGIC!r}: "
                "it was written by another version of idlestate; use that version"
            )
        (length,) = struct.unpack(">I", value[4:8])
        facts = json.loads(value[8 : 8 + length])
        tally = facts.pop("tally")
        tables = facts.pop("tables")
        inputs, ttls = facts.pop("inputs", {}), facts.pop("ttls", None)
        return cls(
            tables={name: TableRecord.from_json(each) for name, each in tables.items()},
            dropped=tuple(Dropped(*each) for each in facts.pop("dropped")),
            tally=KeyCounts(**{name: _frozen(each) for name, each in tally.items()}),
            rows=RowCounts(**facts.pop("rows")),
            inputs={name: InputRecord.from_json(each) for name, each in inputs.items()},
            ages=KeyAges.from_json(facts.pop("ages")),
            ttls=StoredTtls() if ttls is None else StoredTtls.from_json(ttls),
            recent=tuple(tuple(point) for point in facts.pop("recent")),
            seen=np.frombuffer(value[8 + length :], dtype=np.uint8),
            file_bytes=len(value) if facts["file"] else 0,
            **facts,
        )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
