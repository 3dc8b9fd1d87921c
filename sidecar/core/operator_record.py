"""What the store holds of an operator besides its shards: `o/<uid>`, JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from idlestate.retention.policy import Policy
from idlestate.sidecar.protocol.declaration import Declaration

NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class Owner:
    """The query that alone exchanges with an operator, and its present run."""

    query_id: str
    run_id: str
    checkpoint: str
    """Where the query's commit log is; the proof that a batch was committed."""


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch of which a task has opened an exchange, as it was journaled by the first."""

    batch_id: int
    t_ms: int
    """Processing time: of all its records. Event time: the batch's watermark."""
    version: int
    """The table's version that its tasks read; what they prepare is one later."""
    policy: Policy
    policy_version: int = 1
    time_ms: int = 0
    """When Spark planned the batch."""


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """An operator between two changes."""

    declaration: Declaration
    policy: Policy
    policy_version: int = 1
    """Its number; in batches, that of the query's policy journal."""
    owner: Owner | None = None
    superseded: tuple[str, ...] = ()
    """The latest earlier runs of the owner, which are refused when they say that they start."""
    committed: int = NO_BATCH
    """The newest committed batch."""
    batch_time_ms: int = 0
    """When Spark planned that batch."""
    open: OpenBatch | None = None
    version: int = 0
    """Counts the changes of the tables."""
    time_ms: int = 0
    """The highest time at which anything was judged."""
    reached_ms: int = 0
    """How far event time got with the newest batch that the query's commit log was asked for."""
    next_set: int = 0
    next_seq: int = 0
    """The number of the next expired record."""
    next_entry: int = 0
    """The number of the next write that has to wait for a batch border."""
    consumers: Mapping[str, int] = field(default_factory=dict)
    """Per consumer of expired records the first number it has not acknowledged."""
    heard_ms: Mapping[str, int] = field(default_factory=dict)
    """Per consumer when it last acknowledged something new."""
    stopped: str | None = None
    """Why the operator takes no more batches."""
    made: str = ""
    """Tells it apart from every other of its uid, in other folders and times."""

    @property
    def key(self) -> str:
        """Where it stands in the store."""
        return f"o/{self.declaration.uid}"

    def encode(self) -> bytes:
        """The record as a value."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        facts["declaration"] = self.declaration.to_json()
        facts["policy"] = self.policy.to_json()
        facts["chosen_by"] = self.policy.chosen_by
        facts["owner"] = asdict(self.owner) if self.owner else None
        facts["consumers"] = dict(self.consumers)
        facts["heard_ms"] = dict(self.heard_ms)
        if self.open:
            facts["open"] = {
                "batch_id": self.open.batch_id,
                "t_ms": self.open.t_ms,
                "version": self.open.version,
                "policy": self.open.policy.to_json(),
                "policy_version": self.open.policy_version,
                "time_ms": self.open.time_ms,
            }
        return json.dumps(facts).encode()

    @classmethod
    def decode(cls, value: bytes) -> "OperatorRecord":
        """Read it back."""
        facts: dict[str, Any] = json.loads(value)
        facts["declaration"] = Declaration.from_json(facts["declaration"])
        chosen_by = facts.pop("chosen_by")
        facts["policy"] = replace(Policy.from_json(facts["policy"]), chosen_by=chosen_by)
        facts["owner"] = Owner(**facts["owner"]) if facts["owner"] else None
        facts["superseded"] = tuple(facts["superseded"])
        if facts["open"]:
            opened = facts["open"]
            facts["open"] = OpenBatch(**opened | {"policy": Policy.from_json(opened["policy"])})
        return cls(**facts)
