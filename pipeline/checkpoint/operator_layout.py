"""The layout and the policy journal of an operator: `<checkpoint>/idlestate/<uid>/`.

`layout.json` is written at the first start: the state partitions, the integers of the shards, and
the operator's definitions, each with its first batch. Every batch is computed, read and replayed
with its own definition. The next start forgets a definition that no committed batch has used. So a
rollback undoes a change together with its first batch.

`policies.json` is the policy journal: every version with the batch time from which it applies. That
is at least `POLICY_DELAY_MS` ahead while a query runs (`idlestate.pipeline.policy_change`).
`runs/<shard>/` contains the runs, unless the layout places them elsewhere. Tasks read both files
and no settings of the session, so that a retry or a replay decides like the first attempt.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import has_data, read_batch_times
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.errors import DamagedStateError, RefusedError
from idlestate.pipeline.shard_partitions import shard_numbers
from idlestate.retention.policy import Policies, Policy, TimeDomain, of_sides, right_policy

_FORMAT = 2


@dataclass(frozen=True, slots=True)
class DefinedFrom:
    """A definition and the first batch that uses it."""

    batch_id: int
    definition: Definition


@dataclass(frozen=True, slots=True)
class OperatorLayout:
    """The facts of an operator in a checkpoint; its definitions and `retain_batches` change."""

    format: int
    state_partitions: int
    shards: list[int]
    definitions: tuple[DefinedFrom, ...]
    """Oldest first, at least one; of two with the same batch, the later one applies."""
    retain_batches: int
    """The largest number of batches that Spark was ever configured to retain here."""
    backend: str = "spark"
    """The backend of the state."""
    runs: str | None = None
    """The requested place of runs: a path or URL; None: this checkpoint."""
    runs_folder: str = ""
    """The folder of this checkpoint there, with a unique name."""

    @classmethod
    def of(
        cls,
        spec: TableSpec,
        time: TimeDomain,
        partitions: int,
        shards: int,
        retain_batches: int,
        backend: str = "spark",
        runs: str | None = None,
    ) -> "OperatorLayout":
        """The layout of a first start."""
        return cls(
            _FORMAT,
            partitions,
            shard_numbers(shards, partitions),
            (DefinedFrom(0, Definition.of(spec, time)),),
            retain_batches,
            backend,
            runs,
        )

    def at(self, batch_id: int) -> Definition:
        """The definition of a batch; the first one also applies to earlier batches."""
        first, *later = self.definitions
        known = [first, *(each for each in later if each.batch_id <= batch_id)]
        return known[-1].definition

    def as_of(self, batch_id: int) -> "OperatorLayout":
        """The layout without definitions that only later batches would use."""
        first, *later = self.definitions
        used = (each for each in later if each.batch_id <= batch_id)
        return replace(self, definitions=(first, *used))

    def defined(self, batch_id: int, definition: Definition) -> "OperatorLayout":
        """The layout with a definition from a batch on; no later batch has used another one."""
        before = self.as_of(batch_id - 1)
        if before.definitions[-1].definition == definition:
            return before
        more = DefinedFrom(batch_id, definition)
        return replace(before, definitions=(*before.definitions, more))

    @property
    def time(self) -> str:
        """The time domain."""
        return self.definitions[0].definition.time


def layout_path(uid: str) -> str:
    """The path of an operator's layout in its checkpoint."""
    return f"idlestate/{uid}/layout.json"


def operators(checkpoint: Folder) -> list[str]:
    """The operators of a checkpoint, by uid.

    Raises:
        RefusedError: there is no such folder, it is not a checkpoint, or it has no operators.
    """
    held = checkpoint.names("idlestate")
    if held:
        return held
    if not checkpoint.exists():
        raise RefusedError(f"folder {checkpoint} does not exist; pass a query's checkpointLocation")
    if not checkpoint.exists("metadata"):
        raise RefusedError(
            f"folder {checkpoint} is not a checkpoint; pass a query's checkpointLocation"
        )
    raise RefusedError(f"checkpoint {checkpoint} holds no operator of idlestate")


def operator_of(checkpoint: Folder, uid: str | None) -> str:
    """The operator with this uid, or the only one.

    Raises:
        RefusedError: see `operators`; or there are several and no uid was passed.
    """
    held = operators(checkpoint)
    if uid is None and len(held) > 1:
        raise RefusedError(
            f"checkpoint {checkpoint} holds {len(held)} operators ({', '.join(held)}); "
            "pass the uid of one"
        )
    return uid or held[0]


def read_layout(checkpoint: Folder, uid: str) -> OperatorLayout:
    """The layout of an operator.

    Raises:
        RefusedError: there is none, or it has another format.
        DamagedStateError: its file is damaged.
    """
    if not checkpoint.exists(layout_path(uid)):
        raise RefusedError(
            f"checkpoint {checkpoint} holds no operator {uid!r}; "
            f"it holds {', '.join(operators(checkpoint))}"
        )
    facts = _read(checkpoint, layout_path(uid))
    if facts.get("format") != _FORMAT:
        raise RefusedError(
            f"checkpoint {checkpoint}, operator {uid!r}: layout format {facts.get('format')} "
            f"is not the one this version reads ({_FORMAT}); use the version that wrote it"
        )
    definitions = tuple(
        DefinedFrom(each["batch_id"], Definition.from_json(each["definition"]))
        for each in facts.pop("definitions")
    )
    return OperatorLayout(**facts, definitions=definitions)


def _read(checkpoint: Folder, name: str) -> Any:
    try:
        return json.loads(checkpoint.read(name))
    except ValueError as error:
        raise _damaged(checkpoint, name) from error


def _damaged(checkpoint: Folder, name: str) -> DamagedStateError:
    return DamagedStateError(
        f"{checkpoint.shown(name)} is damaged; restore it from a copy of the checkpoint"
    )


def write_layout(checkpoint: Folder, uid: str, layout: OperatorLayout) -> None:
    """Write the layout, replacing an older one."""
    checkpoint.replace(layout_path(uid), json.dumps(asdict(layout), indent=1).encode())


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A policy and the batch time (ms) from which it applies."""

    version: int
    effective_ms: int
    policy: Policy
    right: Policy | None = None
    """Of a join the policy of right rows; `policy` is that of left rows."""

    @property
    def of_sides(self) -> Policies:
        """See `idlestate.retention.policy.of_sides`."""
        return of_sides(self.policy, self.right)


class PolicyJournal:
    """The versions of an operator's policy, oldest first."""

    def __init__(self, checkpoint: Folder, uid: str) -> None:
        """Open the journal, which may still be empty.

        Raises:
            DamagedStateError: its file is damaged.
        """
        self._checkpoint = checkpoint
        self._name = f"idlestate/{uid}/policies.json"
        entries = _read(checkpoint, self._name) if checkpoint.exists(self._name) else []
        self.versions = [
            PolicyVersion(
                e["version"],
                e["effective_ms"],
                replace(Policy.from_json(e["policy"]), chosen_by=e["chosen_by"]),
                right_policy(e),
            )
            for e in entries
        ]

    @property
    def newest(self) -> PolicyVersion:
        """The newest version.

        Raises:
            DamagedStateError: there is none, although the operator has a layout.
        """
        return self._known[-1]

    @property
    def _known(self) -> list[PolicyVersion]:
        if not self.versions:
            raise _damaged(self._checkpoint, self._name)
        return self.versions

    def at(self, time_ms: int) -> PolicyVersion:
        """The version in force at this batch time; the first one also applies earlier.

        Raises:
            DamagedStateError: see `newest`.
        """
        applied = (v for v in reversed(self.versions) if v.effective_ms <= time_ms)
        return next(applied, None) or self._known[0]

    def for_batch(self, batch_id: int) -> PolicyVersion:
        """The version for a planned batch.

        A version takes effect on all shards at once, but a batch without data visits only shards
        whose timer is due. So such a batch uses the version of the last batch with data.
        """
        if len(self.versions) > 1:
            while not has_data(self._checkpoint, batch_id):
                batch_id -= 1
        return self.at(read_batch_times(self._checkpoint, batch_id).time_ms)

    def has_newest(self, policy: Policy, right: Policy | None = None) -> bool:
        """Whether the newest version has this policy, and of a join this one for right rows."""
        newest = self.versions[-1] if self.versions else None
        return newest is not None and (newest.policy, newest.right) == (policy, right)

    def append(
        self, policy: Policy, effective_ms: int, right: Policy | None = None
    ) -> PolicyVersion:
        """Add a version, unless the newest one has this policy by that time; return the newest."""
        if self.has_newest(policy, right) and self.newest.effective_ms <= effective_ms:
            return self.newest
        version = PolicyVersion(len(self.versions) + 1, effective_ms, policy, right)
        self.versions.append(version)
        entries = [
            {
                "version": v.version,
                "effective_ms": v.effective_ms,
                "policy": v.policy.to_json(),
                "chosen_by": v.policy.chosen_by,
                "right": v.right.to_json() if v.right else None,
            }
            for v in self.versions
        ]
        self._checkpoint.replace(self._name, json.dumps(entries, indent=1).encode())
        return self.newest


def refuse_outside(checkpoint: Folder, uid: str) -> None:
    """Refuse an operator whose state is not in the checkpoint.

    Raises:
        RefusedError: it is in a sidecar.
    """
    backend = read_layout(checkpoint, uid).backend
    if backend != "spark":
        raise RefusedError(
            f"checkpoint {checkpoint.url}: the state of operator {uid!r} is in a sidecar "
            f"(backend: {backend}), not in the checkpoint; ask the sidecar's control plane: "
            f"GET /operators/{uid}"
        )
