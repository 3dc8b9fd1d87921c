"""The stored record of an operator, without its shards: `o/<uid>`, JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from idlestate.retention.policy import Policies, Policy, of_sides, right_policy
from idlestate.sidecar.protocol.declaration import Declaration

NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class Owner:
    """The only query that may exchange with an operator, and its current run."""

    query_id: str
    run_id: str
    checkpoint: str
    """The query's commit log, which proves that a batch was committed."""


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """The open batch, as the first task that opened an exchange journaled it."""

    batch_id: int
    t_ms: int
    """In processing time, the time of all its records; in event time, the batch's watermark."""
    version: int
    """The version of the tables that its tasks read; they prepare the next one."""
    policy: Policy
    policy_version: int = 1
    time_ms: int = 0
    """When Spark planned the batch."""
    right: Policy | None = None
    """For a join, the policy of right rows."""

    @property
    def of_sides(self) -> Policies:
        """See `idlestate.retention.policy.of_sides`."""
        return of_sides(self.policy, self.right)


@dataclass(frozen=True, slots=True)
class EarlierDeclaration:
    """The declaration before a change, and data to detect whether the tables have changed since."""

    declaration: Declaration
    version: int
    next_set: int

    def after_batch(self, number: int, version: int) -> "EarlierDeclaration":
        """The same value after a batch; a batch prepared before the change wrote nothing under the
        new declaration.

        Args:
            number: the number of the committed set.
            version: the version of the tables after it.
        """
        was_prepared_before = number < self.next_set and version == self.version + 1
        return replace(self, version=version) if was_prepared_before else self


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """An operator between two changes."""

    declaration: Declaration
    policy: Policy
    policy_version: int = 1
    """The policy's version; in batches, that of the query's policy journal."""
    owner: Owner | None = None
    superseded: tuple[str, ...] = ()
    """The latest earlier runs of the owner, whose starts are refused."""
    committed: int = NO_BATCH
    """The newest committed batch."""
    batch_time_ms: int = 0
    """When Spark planned that batch."""
    open: OpenBatch | None = None
    version: int = 0
    """Counts the changes of the tables."""
    time_ms: int = 0
    """The highest time at which lives were evaluated."""
    reached_ms: int = 0
    """The event time reached with the newest batch that was found in the query's commit log."""
    next_set: int = 0
    next_seq: int = 0
    """The number of the next expired record."""
    next_entry: int = 0
    """The number of the next write that waits for a batch border."""
    consumers: Mapping[str, int] = field(default_factory=dict)
    """Per consumer of expired records, the first number that it has not acknowledged."""
    heard_ms: Mapping[str, int] = field(default_factory=dict)
    """Per consumer, the time of its last new acknowledgement."""
    stopped: str | None = None
    """Why the operator accepts no more batches."""
    made: str = ""
    """Distinguishes it from every other operator with the same uid, elsewhere or earlier."""
    right: Policy | None = None
    """For a join, the policy of right rows; `policy` is that of left rows."""
    before: EarlierDeclaration | None = None
    """Set when a run of the owner changes the declaration."""

    @property
    def of_sides(self) -> Policies:
        """See `idlestate.retention.policy.of_sides`."""
        return of_sides(self.policy, self.right)

    @property
    def written(self) -> Declaration:
        """The declaration to compare with that of the owner's next run. A declaration under which
        nothing was prepared or committed does not count: the query died before its first batch, and
        its checkpoint also compares with the last committed batch.
        """
        before = self.before
        if before is None or (before.version, before.next_set) != (self.version, self.next_set):
            return self.declaration
        return before.declaration

    @property
    def key(self) -> str:
        """Its key in the store."""
        return f"o/{self.declaration.uid}"

    def encode(self) -> bytes:
        """The record as a value."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        facts["declaration"] = self.declaration.to_json()
        facts["policy"] = self.policy.to_json()
        facts["chosen_by"] = self.policy.chosen_by
        facts["right"] = self.right and self.right.to_json()
        if self.before:
            facts["before"] = {
                "declaration": self.before.declaration.to_json(),
                "version": self.before.version,
                "next_set": self.before.next_set,
            }
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
                "right": self.open.right and self.open.right.to_json(),
            }
        return json.dumps(facts).encode()

    @classmethod
    def decode(cls, value: bytes) -> "OperatorRecord":
        """Read it back."""
        facts: dict[str, Any] = json.loads(value)
        facts["declaration"] = Declaration.from_json(facts["declaration"])
        chosen_by = facts.pop("chosen_by")
        facts["policy"] = replace(Policy.from_json(facts["policy"]), chosen_by=chosen_by)
        facts["right"] = right_policy(facts)
        if before := facts.get("before"):
            declared = Declaration.from_json(before["declaration"])
            facts["before"] = EarlierDeclaration(**before | {"declaration": declared})
        facts["owner"] = Owner(**facts["owner"]) if facts["owner"] else None
        facts["superseded"] = tuple(facts["superseded"])
        if facts["open"]:
            opened = facts["open"]
            policies = {"policy": Policy.from_json(opened["policy"]), "right": right_policy(opened)}
            facts["open"] = OpenBatch(**opened | policies)
        return cls(**facts)
