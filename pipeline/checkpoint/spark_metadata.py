"""Spark's metadata of stateful operators, repaired so that a checkpoint can be read anywhere.

Per operator and schema there is `state/<operator>/_metadata/v2/<batch>`: a line with the version,
and a line of JSON. Our own paths are relative to the checkpoint, but here Spark writes the full
path of the state's schema. Also, Spark's reader of state does not find a path with a space or
another character that URLs escape.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from urllib.parse import quote

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.temporary_folder import OwnFolder
from idlestate.pipeline.spark.spark_version import private_part

_SCHEMA = "_stateSchema"


def operators_with_state(checkpoint: Folder, state: str) -> list[str]:
    """Numbers of the operators that keep a state variable of this name, in order."""
    found = []
    for operator in _operators(checkpoint):
        for name in _entries(checkpoint, operator):
            with _as_written(checkpoint, name):
                _, facts = _read(checkpoint, name)
                properties = json.loads(facts.get("operatorPropertiesJson") or "{}")
                variables = [each["stateName"] for each in properties.get("stateVariables", [])]
            if state in variables and operator not in found:
                found.append(operator)
    return found


def put_paths_right(checkpoint: Folder) -> None:
    """In a moved checkpoint, replace old paths that no longer exist by its own."""
    for operator in _operators(checkpoint):
        for name in _entries(checkpoint, operator):
            with _as_written(checkpoint, name):
                version, facts = _read(checkpoint, name)
                stores = facts["stateStoreInfo"]
            changed = False
            for store in stores:
                noted = store.get("stateSchemaFilePaths", [])
                there = [_place(checkpoint, operator, path) for path in noted]
                changed |= there != noted
                store["stateSchemaFilePaths"] = there
            if changed:
                # Hadoop keeps a checksum file for a local file; without one, it does not check.
                folder, _, batch = name.rpartition("/")
                checkpoint.remove(f"{folder}/.{batch}.crc")
                checkpoint.replace(name, f"{version}\n{json.dumps(facts)}".encode())


@contextmanager
def plain_path(checkpoint: Folder) -> Iterator[str]:
    """A path to the checkpoint that Spark's reader of state understands."""
    path = checkpoint.path("").rstrip("/")
    if not checkpoint.is_local or quote(path) == path:
        yield checkpoint.url
        return
    folder = OwnFolder()
    try:
        link = folder.path / "checkpoint"
        link.symlink_to(path)
        yield str(link)
    finally:
        folder.remove()


def _operators(checkpoint: Folder) -> list[str]:
    numbers = [int(name) for name in checkpoint.names("state") if name.isdigit()]
    return [str(number) for number in sorted(numbers)]


def _entries(checkpoint: Folder, operator: str) -> list[str]:
    log = f"state/{operator}/_metadata/v2"
    return [f"{log}/{batch}" for batch in checkpoint.names(log) if batch.isdigit()]


def _read(checkpoint: Folder, name: str) -> tuple[str, dict[str, Any]]:
    version, _, text = checkpoint.read(name).decode().partition("\n")
    return version, json.loads(text)


def _as_written(checkpoint: Folder, name: str) -> AbstractContextManager[None]:
    return private_part(f"what Spark notes of an operator in {name} of checkpoint {checkpoint}")


def _place(checkpoint: Folder, operator: str, noted: str) -> str:
    """The path of a schema file: the recorded one if it exists, else the one in this checkpoint."""
    folder, _, file = noted.rpartition("/")
    _, found, below = noted.rpartition(f"/state/{operator}/{_SCHEMA}/")
    own = f"state/{operator}/{_SCHEMA}/{below}"
    if not found or not checkpoint.exists(own) or Folder(folder).exists(file):
        return noted
    return f"file:{checkpoint.path(own)}" if checkpoint.is_local else f"{checkpoint.url}/{own}"
