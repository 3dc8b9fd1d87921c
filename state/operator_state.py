"""Operator state: lists and maps of one instance that belong to no key.

    list        each instance has a part; when the number of instances changes, the elements of all
                are redistributed in contiguous parts
    union       after a restore, each instance has all elements of all instances
    broadcast   a map that is the same on all instances; new ones get a copy

As in Flink, it is never in RocksDB: it is small, in memory, and part of snapshots. It has no time
to live.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from idlestate.state.codec import Codec, codec_for
from idlestate.state.errors import (
    KeyGroupError,
    NullValueError,
    StateArgumentError,
    StateKindError,
    StateMigrationError,
    StateTypeError,
)
from idlestate.state.key_groups import are_whole
from idlestate.state.redistribution import (
    OperatorStateMode,
    StatePartitions,
    redistribute,
)
from idlestate.state.settings import Place, folder_from
from idlestate.state.snapshot_files import (
    finish_folder,
    read_record,
    start_folder,
    unreadable,
    write_record,
    writing,
)
from idlestate.state.state_schema import VERSIONS, check_versions, type_from_text, type_to_text

ROWS = "operator.rows"


class OperatorListState:
    """Elements of this instance."""

    def __init__(self, name: str, codec: Codec, elements: Iterable[Any]) -> None:
        """These elements, of the type of this codec."""
        self._name, self._codec = name, codec
        self._elements = list(elements)

    def get(self) -> list[Any]:
        """A copy of the elements."""
        return self._elements.copy()

    def add(self, element: Any) -> None:
        """Append an element.

        Raises:
            NullValueError: it is None.
            StateTypeError: it does not have the declared type.
        """
        self.add_all((element,))

    def add_all(self, elements: Iterable[Any]) -> None:
        """Append elements, all or none; raises like `add`."""
        self._elements += self._checked(elements)

    def update(self, elements: Iterable[Any]) -> None:
        """Replace the elements; raises like `add`."""
        self._elements = self._checked(elements)

    def _checked(self, elements: Iterable[Any]) -> list[Any]:
        given = list(elements)
        if any(element is None for element in given):
            raise NullValueError(f"operator state {self._name}: None cannot be an element")
        return [_as_stored(self._name, self._codec, element) for element in given]

    def clear(self) -> None:
        """Remove all elements."""
        self._elements = []


class BroadcastState:
    """A map that the program keeps the same on all instances."""

    def __init__(self, name: str, codec: Codec, entries: Iterable[tuple[Any, Any]]) -> None:
        """These entries, of the types of this codec."""
        self._name, self._codec = name, codec
        self._entries = dict(entries)

    def get(self, key: Any) -> Any:
        """The value; None if there is none."""
        return self._entries.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set an entry.

        Raises:
            StateTypeError: it does not have the declared types.
        """
        self.put_all({key: value})

    def put_all(self, entries: Mapping[Any, Any]) -> None:
        """Set entries, all or none; raises like `put`."""
        self._entries.update(
            [_as_stored(self._name, self._codec, entry) for entry in entries.items()]
        )

    def contains(self, key: Any) -> bool:
        """Whether there is an entry."""
        return key in self._entries

    def remove(self, key: Any) -> None:
        """Remove an entry."""
        self._entries.pop(key, None)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """(key, value) of all entries."""
        return iter(list(self._entries.items()))

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()


@dataclass(slots=True)
class _Kept:
    """One state: its description, and its object after its first use."""

    mode: OperatorStateMode
    kind: pa.DataType
    partitions: list[bytes]
    state: OperatorListState | BroadcastState | None = None


class OperatorStateStore:
    """The operator states of one instance.

    Args:
        restored: snapshots of all old instances, in their order.
        index: the index of this instance among the new ones.
        parallelism: the number of new instances.

    Raises:
        KeyGroupError: there is no such instance.
        StateArgumentError: one is not a snapshot of operator state, or of another version.
        DamagedFileError: a file of a snapshot is lost or damaged.
        SnapshotError: a snapshot cannot be read.
    """

    def __init__(
        self, restored: Sequence[Place] = (), *, index: int = 0, parallelism: int = 1
    ) -> None:
        self._kept: dict[str, _Kept] = {}
        if not (are_whole(index, parallelism) and 0 <= index < parallelism):
            raise KeyGroupError(
                f"there is no instance {index} of {parallelism}: pass an index from 0 to below "
                "parallelism"
            )
        if restored:
            folders = [folder_from("restored", each) for each in restored]
            self._restore(folders, index, parallelism)

    def get_list_state(self, name: str, element_type: pa.DataType) -> OperatorListState:
        """A list whose elements are redistributed when the number of instances changes."""
        return self._list(name, OperatorStateMode.SPLIT, element_type)

    def get_union_list_state(self, name: str, element_type: pa.DataType) -> OperatorListState:
        """A list of which every instance gets all elements after a restore."""
        return self._list(name, OperatorStateMode.UNION, element_type)

    def get_broadcast_state(
        self, name: str, key_type: pa.DataType, value_type: pa.DataType
    ) -> BroadcastState:
        """A map that is the same on all instances."""
        kind = pa.struct([("key", key_type), ("value", value_type)])
        kept = self._keep(name, OperatorStateMode.BROADCAST, kind)
        if kept.state is None:
            codec = codec_for(kind)
            kept.state = BroadcastState(name, codec, map(codec.decode, kept.partitions))
        assert isinstance(kept.state, BroadcastState)
        return kept.state

    def _list(self, name: str, mode: OperatorStateMode, kind: pa.DataType) -> OperatorListState:
        kept = self._keep(name, mode, kind)
        if kept.state is None:
            codec = codec_for(kind)
            kept.state = OperatorListState(name, codec, map(codec.decode, kept.partitions))
        assert isinstance(kept.state, OperatorListState)
        return kept.state

    def _keep(self, name: str, mode: OperatorStateMode, kind: pa.DataType) -> _Kept:
        kept = self._kept.setdefault(name, _Kept(mode, kind, []))
        if kept.mode is not mode:
            raise StateKindError(
                f"operator state {name} is stored as {kept.mode.name}, declared as {mode.name}: "
                "declare the stored mode, or use a different name"
            )
        if kept.kind != kind:
            raise StateMigrationError(
                f"operator state {name}: stored as {kept.kind}, declared as {kind}: declare the "
                "stored type, or use a different name"
            )
        return kept

    def snapshot(self, folder: Place) -> None:
        """Write all states, including those not used since they were restored.

        Raises:
            SnapshotError: it could not be written; nothing is left of it.
        """
        folder = folder_from("folder", folder)
        with writing(folder):
            self._write(folder)

    def _write(self, folder: Path) -> None:
        draft, states, at = start_folder(folder), {}, 0
        with (draft / ROWS).open("wb") as file:
            for name, kept in self._kept.items():
                offsets = []
                for data in _encoded(kept):
                    offsets.append(at)
                    at += file.write(len(data).to_bytes(4, "big") + data)
                kind = type_to_text(kept.kind)
                states[name] = {"mode": kept.mode.value, "type": kind, "offsets": offsets}
            file.flush()
            os.fsync(file.fileno())
        write_record(draft, VERSIONS | {"operator_states": states})
        finish_folder(draft, folder)

    def _restore(self, folders: Sequence[Path], index: int, parallelism: int) -> None:
        held, kinds = [], {}
        for folder in folders:
            states = _record(folder)
            kinds.update({name: type_from_text(each["type"]) for name, each in states.items()})
            parts = {
                name: StatePartitions(OperatorStateMode(each["mode"]), tuple(each["offsets"]))
                for name, each in states.items()
            }
            held.append({str(folder): parts})
        mine = redistribute(held, parallelism)[index]
        for folder in folders:  # in order, so that all instances see the elements in the same order
            states = mine.get(str(folder), {})
            data = _data(folder) if states else b""
            for name, part in states.items():
                kept = self._kept.setdefault(name, _Kept(part.mode, kinds[name], []))
                if part.mode is OperatorStateMode.BROADCAST:
                    kept.partitions.clear()
                kept.partitions += [_partition(data, offset) for offset in part.offsets]


def _as_stored(name: str, codec: Codec, value: Any) -> Any:
    """The value as a restore would return it; a value that a snapshot could not write is refused at
    once.
    """
    try:
        return codec.decode(codec.encode(value))
    except StateTypeError as error:
        raise StateTypeError(f"operator state {name}: {error}") from error


def _encoded(kept: _Kept) -> list[bytes]:
    if kept.state is None:
        return kept.partitions
    codec: Codec = codec_for(kept.kind)
    state = kept.state
    values = state.get() if isinstance(state, OperatorListState) else list(state.entries())
    return [codec.encode(value) for value in values]


def _partition(data: bytes, offset: int) -> bytes:
    length = int.from_bytes(data[offset : offset + 4], "big")
    return data[offset + 4 : offset + 4 + length]


def _data(folder: Path) -> bytes:
    try:
        return (folder / ROWS).read_bytes()
    except OSError as error:
        raise unreadable(error) from error


def _record(folder: Path) -> dict[str, Any]:
    record = read_record(folder, "snapshot of operator state")
    check_versions(record, str(folder))
    states: dict[str, Any] | None = record.get("operator_states")
    if states is None:
        raise StateArgumentError(
            f"{folder} is a snapshot of keyed state: pass it to open_backend(restore=...)"
        )
    return states
