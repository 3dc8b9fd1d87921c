"""What the store holds for a shard: which runs its table is made of, and its exact counts.

A run's segments are values of their own, `s/<uid>/<shard>/<run>/<number>`, each an Arrow file of
one segment (`idlestate.backends.run`). The record stands under `m/<uid>/<shard>`: a `Message` of
the facts below and the sketch of keys ever seen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Any

import numpy as np

from idlestate.backends import sketch
from idlestate.backends.sidecar.message import Message
from idlestate.backends.sweeps import Sweep, Sweeps
from idlestate.backends.table import Tally
from idlestate.retention.policy import FOREVER_MS, Policy

HIGHEST = "highest_ms"
"""The one of the counted figures that does not add up."""


def segment_key(uid: str, shard: int, run: str, at: int) -> str:
    """Where a segment of a run is in the store."""
    return f"s/{uid}/{shard:05}/{run}/{at:06}"


def is_segment(key: str) -> bool:
    """Whether a key is that of a segment."""
    return key.startswith("s/")


def run_of(key: str) -> str:
    """The run that a segment belongs to."""
    return key.split("/")[3]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run in the store; `version` is that of the table when it was written."""

    name: str
    version: int
    segments: int
    rows: int
    bytes: int

    def segment_keys(self, uid: str, shard: int) -> Iterator[str]:
        """Where its segments are in the store."""
        return (segment_key(uid, shard, self.name, at) for at in range(self.segments))


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """Runs, oldest first, the sweeps they went through, and the lives open in them."""

    runs: tuple[StoredRun, ...] = ()
    sweeps: Sweeps = ()
    live: int = 0

    @property
    def rows(self) -> int:
        """Rows in the runs."""
        return sum(run.rows for run in self.runs)

    @property
    def bytes(self) -> int:
        """Bytes of the runs."""
        return sum(run.bytes for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes."""
        return {
            "runs": [astuple(run) for run in self.runs],
            "sweeps": [[each.policy.to_json(), each.to_ms, each.batch_id] for each in self.sweeps],
            "live": self.live,
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "StoredRuns":
        """Read it back."""
        sweeps = tuple(
            Sweep(Policy.from_json(policy), to_ms, version)
            for policy, to_ms, version in facts["sweeps"]
        )
        return cls(tuple(StoredRun(*run) for run in facts["runs"]), sweeps, facts["live"])


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A shard's table between two changes, without its rows."""

    current: StoredRuns = field(default_factory=StoredRuns)
    remembered: StoredRuns = field(default_factory=StoredRuns)
    tally: Tally = field(default_factory=Tally)
    counts: Mapping[str, int] = field(default_factory=dict)
    """Rows that reached the operator, by what became of them, and the highest event time."""
    time_ms: int = 0
    """The highest time at which lives were closed."""
    next_end_ms: int = FOREVER_MS
    """No open life ends before this; it may be a little early."""
    seen: sketch.Registers = field(default_factory=sketch.empty, compare=False)

    @property
    def runs(self) -> tuple[StoredRun, ...]:
        """Every run that the table is made of."""
        return (*self.current.runs, *self.remembered.runs)

    def counted(self, more: Mapping[str, int]) -> "ShardRecord":
        """The record with more rows counted."""
        total = {name: self.counts.get(name, 0) + number for name, number in more.items()}
        if HIGHEST in more:
            total[HIGHEST] = max(self.counts.get(HIGHEST, 0), more[HIGHEST])
        return replace(self, counts={**self.counts, **total})

    def figures(self, policy: Policy) -> dict[str, int]:
        """What is shown of the shard: sizes now, and counts since it was made."""
        lifetime, ttl, idle = self.tally.expired
        is_exact = policy.remember_for_ms == FOREVER_MS
        seen = self.tally.created - self.tally.comebacks
        return {
            "time_ms": self.time_ms,
            "live_keys": self.current.live,
            "state_bytes": self.current.bytes,
            "runs": len(self.runs),
            "stored_rows": self.current.rows,
            "remembered_keys": self.remembered.live,
            "remembered_bytes": self.remembered.bytes,
            "keys_ever_seen": seen if is_exact else round(sketch.estimate(self.seen)),
            "created": self.tally.created,
            "comebacks": self.tally.comebacks,
            "expired_lifetime": lifetime,
            "expired_ttl": ttl,
            "expired_idle": idle,
            **self.counts,
        }

    def encode(self) -> bytes:
        """The record as a value."""
        facts = {
            "current": self.current.to_json(),
            "remembered": self.remembered.to_json(),
            "tally": asdict(self.tally),
            "counts": dict(self.counts),
            "time_ms": self.time_ms,
            "next_end_ms": self.next_end_ms,
        }
        return Message(facts, (self.seen.tobytes(),)).encode()

    @classmethod
    def decode(cls, value: bytes) -> "ShardRecord":
        """Read it back."""
        message = Message.decode(value)
        facts = message.header
        tally = facts["tally"]
        return cls(
            StoredRuns.from_json(facts["current"]),
            StoredRuns.from_json(facts["remembered"]),
            Tally(tally["created"], tally["comebacks"], tuple(tally["expired"])),
            facts["counts"],
            facts["time_ms"],
            facts["next_end_ms"],
            np.frombuffer(message.parts[0], dtype=np.uint8),
        )
