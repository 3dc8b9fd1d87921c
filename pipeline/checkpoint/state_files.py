"""The files of a checkpoint's state: those that batches need, and orphans."""

from collections import defaultdict
from dataclasses import dataclass

from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.checkpoint.runs_folder import runs_of
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import committed_batch
from idlestate.backends.runs.block_checksums import what_is_wrong
from idlestate.backends.shards.shard_record import RunRef
from idlestate.pipeline.checkpoint.state_store_shards import read_shards


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that state names: its place, and the retained batches that need it."""

    runs: Folder
    name: str
    """Its name below the operator's runs: `<shard>/<file>`."""
    ref: RunRef
    batches: tuple[int, ...]

    @property
    def path(self) -> str:
        """The full path for messages."""
        return self.runs.shown(self.name)


@dataclass(frozen=True, slots=True)
class Damage:
    """A named file that is lost or damaged."""

    file: NamedFile
    what: str


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The files of one operator over all retained batches.

    Attributes:
        batches: retained committed batches, ascending; the last is the newest.
        named: files that one of them names.
        orphans: files that none of them names, and that no running batch can have written. Killed
            attempts left them; later batches remove them.
    """

    batches: tuple[int, ...]
    named: tuple[NamedFile, ...]
    orphans: tuple[str, ...]

    def of_batch(self, batch_id: int) -> list[NamedFile]:
        """The files that a batch needs."""
        return [file for file in self.named if batch_id in file.batches]

    def newest_without(self, damaged: list[Damage]) -> int | None:
        """The newest retained batch that needs none of these; None if every batch needs one."""
        needed = {batch for damage in damaged for batch in damage.file.batches}
        return max((batch for batch in self.batches if batch not in needed), default=None)


def retained_batches(checkpoint: Folder, uid: str) -> list[int]:
    """Committed batches whose files are retained, ascending.

    Raises:
        RefusedError: there is no such operator, or no batch.
    """
    newest = committed_batch(checkpoint)
    oldest = newest - read_layout(checkpoint, uid).retain_batches + 1
    committed = [int(name) for name in checkpoint.names("commits") if name.isdigit()]
    return sorted(batch for batch in committed if batch >= oldest)


def state_files(spark: SparkSession, checkpoint: str, uid: str) -> StateFiles:
    """Find all files of an operator, named or not.

    Raises:
        RefusedError: there is no such operator, no batch, or the session cannot read state.
    """
    folder = Folder(checkpoint)
    batches = retained_batches(folder, uid)
    runs = runs_of(folder, uid, read_layout(folder, uid))
    refs: dict[str, RunRef] = {}
    needed: dict[str, list[int]] = defaultdict(list)
    known: set[str] = set()
    for batch in batches:
        for state in read_shards(spark, checkpoint, uid, batch):
            for ref in state.runs:
                refs[f"{state.shard}/{ref.name}"] = ref
                needed[f"{state.shard}/{ref.name}"].append(batch)
            others = state.files | {dropped.name for dropped in state.dropped}
            known |= {f"{state.shard}/{name}" for name in others}
    named = [NamedFile(runs, name, refs[name], tuple(needed[name])) for name in sorted(refs)]
    orphans = [
        runs.shown(name)
        for name in _written(runs, batches[-1])
        if name not in refs and name not in known
    ]
    return StateFiles(tuple(batches), tuple(named), tuple(orphans))


def damages(files: list[NamedFile]) -> list[Damage]:
    """The given files that are missing, or whose length or checksum differs.

    Each is read in full from its place, not from this machine's cache.
    """
    found = []
    for file in files:
        what = _what_is_wrong(file)
        if what:
            found.append(Damage(file, what))
    return found


def _what_is_wrong(file: NamedFile) -> str | None:
    try:
        data = file.runs.open(file.name)
    except FileNotFoundError:
        return "is missing"
    return what_is_wrong(data, file.ref.bytes, file.ref.checksum)


def _written(runs: Folder, newest: int) -> list[str]:
    """Files of batches up to the newest committed one; a later batch may be running."""
    found = []
    for shard in runs.names(""):
        for name in runs.names(shard) if shard.isdigit() else ():
            batch = name.partition("-")[0]
            if batch.isdigit() and int(batch) <= newest:
                found.append(f"{shard}/{name}")
    return found
