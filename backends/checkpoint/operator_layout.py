"""The layout of an operator: `<checkpoint>/idlestate/<uid>/layout.json`.

It is written at the first start: the state partitions, the integers of the shards, and the
operator's definitions, each with its first batch. Every batch is computed, read and replayed with
its own definition. The next start forgets a definition that no committed batch has used. So a
rollback undoes a change together with its first batch.

Beside it, `policies.json` is the policy journal (`policy_journal`), and `runs/<shard>/` contains
the runs, unless the layout places them elsewhere. Tasks read both files and no settings of the
session, so that a retry or a replay decides like the first attempt.
"""

import json
from dataclasses import asdict, dataclass, replace

from idlestate.backends.checkpoint.operator_files import missing, read_json, valid
from idlestate.backends.checkpoint.shard_partitions import shard_numbers
from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.json_fields import read_fields
from idlestate.backends.shards.own_accumulator import Classes
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.errors import RefusedError
from idlestate.retention.policy import TimeDomain

_FORMAT = 3


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

    def __post_init__(self) -> None:
        """Check what the types of the fields cannot express.

        Raises:
            ValueError: there are no shards, partitions, definitions or batches.
        """
        for name in ("state_partitions", "shards", "definitions", "retain_batches"):
            if not getattr(self, name):
                raise ValueError(f"{name} must be at least one")

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


def journal_path(uid: str) -> str:
    """The path of an operator's policy journal in its checkpoint."""
    return f"idlestate/{uid}/policies.json"


def held_operators(checkpoint: Folder) -> list[str]:
    """The operators of a checkpoint, by uid; none if it is not a checkpoint.

    An operator is a folder with a layout or a policy journal. Other programs may have left other
    files.
    """
    return [
        uid
        for uid in checkpoint.names("idlestate")
        if checkpoint.exists(layout_path(uid)) or checkpoint.exists(journal_path(uid))
    ]


def operators(checkpoint: Folder) -> list[str]:
    """The operators of a checkpoint, by uid.

    Raises:
        RefusedError: there is no such folder, it is not a checkpoint, or it has no operators.
    """
    held = held_operators(checkpoint)
    if held:
        return held
    if not checkpoint.exists():
        raise RefusedError(f"folder {checkpoint} does not exist; pass a query's checkpointLocation")
    if not checkpoint.exists("metadata"):
        raise RefusedError(
            f"{checkpoint} is not a checkpoint; pass the folder of a query's checkpointLocation"
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
        RefusedError: there is no such operator, or its layout has another format.
        DamagedStateError: the file is damaged or missing.
    """
    if not checkpoint.exists(layout_path(uid)):
        if checkpoint.exists(journal_path(uid)):
            raise missing(checkpoint, layout_path(uid))
        raise RefusedError(
            f"checkpoint {checkpoint} holds no operator {uid!r}; "
            f"it holds {', '.join(operators(checkpoint))}"
        )
    facts = read_json(checkpoint, layout_path(uid))
    found = facts.get("format") if isinstance(facts, dict) else None
    if isinstance(found, int) and found != _FORMAT:
        raise RefusedError(
            f"checkpoint {checkpoint}, operator {uid!r}: layout format {found} is not "
            f"supported (supported: {_FORMAT}); use the version of idlestate that wrote it"
        )
    with valid(checkpoint, layout_path(uid)):
        return read_fields(OperatorLayout, facts)


def spec_at(
    checkpoint: Folder,
    uid: str,
    layout: OperatorLayout,
    batch_id: int,
    classes: Classes | None = None,
) -> TableSpec:
    """The spec of an operator's table in a batch.

    Args:
        checkpoint, uid, layout: the operator.
        batch_id: the batch.
        classes: as in `Definition.spec`.

    Raises:
        DamagedStateError: the parts of its definition contradict each other.
    """
    with valid(checkpoint, layout_path(uid), "definitions"):
        return layout.at(batch_id).spec(classes)


def write_layout(checkpoint: Folder, uid: str, layout: OperatorLayout) -> None:
    """Write the layout, replacing an older one."""
    checkpoint.replace(layout_path(uid), json.dumps(asdict(layout), indent=1).encode())


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
