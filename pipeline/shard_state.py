"""What Spark's state store holds for a shard: which files its table is, and its exact counts.

Layout of the value, version 3: 4 bytes `IDS3`; a big-endian uint32 n; n bytes of JSON (the fields
of `ShardState` but the sketch); the 4,096 registers of the sketch of keys ever seen.
"""

import json
import struct
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any

import numpy as np

from idlestate.backends import sketch
from idlestate.backends.sweeps import Sweep, Sweeps
from idlestate.backends.table import Tally
from idlestate.pipeline.errors import DamagedStateError
from idlestate.retention.policy import Policy

_MAGIC = b"IDS3"
_RECENT = 16


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of the shard: its name, bytes, rows, the checksum of its table of checksums
    (`idlestate.pipeline.blocks`) and the batch that wrote it.
    """

    name: str
    bytes: int
    rows: int
    checksum: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class RunRefs:
    """The files of a log-structured table, and what is known of it without them."""

    files: tuple[FileRef, ...] = ()
    """Oldest to newest."""
    sweeps: Sweeps = ()
    """The sweeps that the oldest file went through."""
    live: int = 0
    """Rows that count; the files also hold what newer ones shadow and what sweeps closed."""

    @property
    def rows(self) -> int:
        """Rows in the files."""
        return sum(ref.rows for ref in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of the files."""
        return sum(ref.bytes for ref in self.files)

    @classmethod
    def of_json(cls, facts: dict[str, Any]) -> "RunRefs":
        """Read back what `json` made of `to_json`."""
        return cls(
            tuple(FileRef(*ref) for ref in facts["files"]),
            tuple(
                Sweep(Policy.from_json(policy), to_ms, batch_id)
                for policy, to_ms, batch_id in facts["sweeps"]
            ),
            facts["live"],
        )

    def to_json(self) -> dict[str, Any]:
        """The same as a dict that `json` writes."""
        return {
            "files": [astuple(ref) for ref in self.files],
            "sweeps": [[each.policy.to_json(), each.to_ms, each.batch_id] for each in self.sweeps],
            "live": self.live,
        }


@dataclass(frozen=True, slots=True)
class Dropped:
    """A file that the state no longer names since a batch; removed when nobody can want it."""

    name: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows that reached the operator, and those of them that touched nothing, by reason."""

    input: int = 0
    late: int = 0
    null_time: int = 0
    too_old: int = 0
    too_far_ahead: int = 0
    malformed: int = 0
    highest_ms: int = 0
    """The highest event time among those that counted; the only figure that does not add up."""

    def plus(self, other: "RowCounts") -> "RowCounts":
        """Both together."""
        mine, theirs = self.as_dict(), other.as_dict()
        total = {name: mine[name] + theirs[name] for name in mine}
        total["highest_ms"] = max(self.highest_ms, other.highest_ms)
        return RowCounts(**total)

    def as_dict(self) -> dict[str, int]:
        """The figures by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ShardState:
    """The state of one shard between two batches."""

    uid: str
    shard: int
    current: RunRefs = field(default_factory=RunRefs)
    """Open lives."""
    remembered: RunRefs = field(default_factory=RunRefs)
    """Keys that ended."""
    dropped: tuple[Dropped, ...] = ()
    tally: Tally = field(default_factory=Tally)
    rows: RowCounts = field(default_factory=RowCounts)
    time_ms: int = 0
    """The highest time at which lives were closed: W(N), or the batch time."""
    timer_ms: int | None = None
    """The event-time timer that is registered for the next deadline."""
    recent: tuple[tuple[int, int, int, int], ...] = ()
    """The last batches: batch id, how far time got (ms), live keys, keys ever seen."""
    seen: sketch.Registers = field(default_factory=sketch.empty, compare=False)

    @property
    def live_keys(self) -> int:
        """Lives in the table."""
        return self.current.live

    @property
    def files(self) -> tuple[FileRef, ...]:
        """Every file that the state is made of."""
        return (*self.current.files, *self.remembered.files)

    def keys_ever_seen(self, exact: bool) -> int:
        """Keys that ever had a life: exact when every ended key is remembered, else a sketch's."""
        if exact:
            return self.tally.created - self.tally.comebacks
        return round(sketch.estimate(self.seen))

    def with_recent(self, batch_id: int, exact: bool) -> "ShardState":
        """The state with this batch among the last ones."""
        reached_ms = max(self.time_ms, self.rows.highest_ms)
        point = (batch_id, reached_ms, self.live_keys, self.keys_ever_seen(exact))
        return replace(self, recent=(*self.recent, point)[-_RECENT:])

    def encode(self) -> bytes:
        """The value for the state store."""
        facts = asdict(self)
        facts.pop("seen")
        facts |= {"current": self.current.to_json(), "remembered": self.remembered.to_json()}
        text = json.dumps(facts, separators=(",", ":")).encode()
        return _MAGIC + struct.pack(">I", len(text)) + text + self.seen.tobytes()

    @classmethod
    def decode(cls, value: bytes) -> "ShardState":
        """Read it back.

        Raises:
            DamagedStateError: it is of another version.
        """
        if value[:4] != _MAGIC:
            raise DamagedStateError(
                f"a shard's state begins with {value[:4]!r}, not {_MAGIC!r}: "
                "it was written by another version of idlestate; use that one"
            )
        (length,) = struct.unpack(">I", value[4:8])
        facts = json.loads(value[8 : 8 + length])
        tally = facts.pop("tally")
        return cls(
            current=RunRefs.of_json(facts.pop("current")),
            remembered=RunRefs.of_json(facts.pop("remembered")),
            dropped=tuple(Dropped(**d) for d in facts.pop("dropped")),
            tally=Tally(tally["created"], tally["comebacks"], tuple(tally["expired"])),
            rows=RowCounts(**facts.pop("rows")),
            recent=tuple(tuple(point) for point in facts.pop("recent")),
            seen=np.frombuffer(value[8 + length :], dtype=np.uint8),
            **facts,
        )
