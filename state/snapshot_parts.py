"""The parts of a snapshot, states and timer queues alike: rows of key groups, in order."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.snapshot_files import (
    SnapshotInfo,
    finish_folder,
    rows_file,
    start_folder,
    write_rows,
)
from idlestate.state.state_schema import StateSchema
from idlestate.state.table import Row

TIMERS = "timers"

Filter = Callable[[Iterator[Row]], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one state or timer queue.

    Attributes:
        name: its name.
        schema: the schema of the state; None for timers.
        rows: the rows of some key groups, in the order of their bytes.
    """

    name: str
    schema: StateSchema | None
    rows: Callable[[KeyGroupRange], Iterator[Row]]

    def to_json(self) -> dict[str, Any]:
        """For the record of a snapshot."""
        return {"kind": TIMERS, "name": self.name} if self.schema is None else self.schema.to_json()


def write_parts(
    info: SnapshotInfo, parts: Iterable[Part], filters: Mapping[str, Filter]
) -> SnapshotInfo:
    """Write a snapshot of rows; return its record."""
    draft = start_folder(info.folder)
    states = []
    for number, part in enumerate(parts):
        rows, keep = part.rows(info.groups), filters.get(part.name)
        file = rows_file(number)
        blocks = write_rows(draft / file, keep(rows) if keep else rows)
        states.append(part.to_json() | {"file": file, "blocks": blocks})
    complete = replace(info, states=states)
    complete.write(draft)
    finish_folder(draft, info.folder)
    return complete
