"""The record of a folder of keyed state: its key groups, types and states."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from idlestate.state.errors import KeyGroupError, StateMigrationError
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.settings import BackendSettings
from idlestate.state.snapshot_files import SnapshotInfo
from idlestate.state.state_schema import StateSchema, type_from_text, type_to_text

Record = dict[str, Any]


def record_of(settings: BackendSettings, schemas: Iterable[StateSchema]) -> Record:
    """The record of a backend with these states."""
    return {
        "max_parallelism": settings.max_parallelism,
        "groups": [settings.groups.first, settings.groups.last],
        "key_type": type_to_text(settings.key_type),
        "namespace_type": type_to_text(settings.namespace_type),
        "states": [schema.to_json() for schema in schemas],
    }


def check_record(record: Mapping[str, Any], settings: BackendSettings, path: Path) -> None:
    """Raise `StateMigrationError` if a folder is opened with other settings than it was created."""
    for what, mine in record_of(settings, ()).items():
        if what != "states" and record[what] != mine:
            stored, declared = record[what], mine
            if what.endswith("type"):
                stored, declared = type_from_text(stored), type_from_text(str(mine))
            if what == "groups":
                stored, declared = KeyGroupRange(*stored), settings.groups
            raise StateMigrationError(
                f"{path} was created with {what}={stored}; pass {stored}, not {declared}"
            )


def check_restore(info: SnapshotInfo, settings: BackendSettings) -> None:
    """Raise an error if a snapshot cannot be restored into a backend."""
    if info.max_parallelism != settings.max_parallelism:
        raise KeyGroupError(
            f"{info.folder} has max parallelism {info.max_parallelism}, this backend "
            f"{settings.max_parallelism}: open it with max_parallelism={info.max_parallelism}"
        )
    for what, stored, declared in (
        ("keys", info.key_type, settings.key_type),
        ("namespaces", info.namespace_type, settings.namespace_type),
    ):
        if stored != declared:
            raise StateMigrationError(
                f"{info.folder}: {what} are stored as {stored}, declared as {declared}: "
                "declare the stored type"
            )
