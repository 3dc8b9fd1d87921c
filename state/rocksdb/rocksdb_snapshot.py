"""Snapshots of RocksDB's own files: hard links, so that only new files cost space."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rocksdict import Checkpoint

from idlestate.state.errors import SnapshotError
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.rocksdb.rocksdb_database import TIMERS, Database
from idlestate.state.rocksdb.rocksdb_table import plainly, scan
from idlestate.state.row_keys import GROUP, KeyLayout
from idlestate.state.snapshot_files import DATABASE, SnapshotInfo, finish_folder
from idlestate.state.snapshot_parts import Part
from idlestate.state.state_schema import StateSchema
from idlestate.state.table import Row


def checkpoint(database: Database, folder: Path) -> None:
    """Link the database's current files into a new folder."""
    with plainly(database.path):
        Checkpoint(database.raw).create_checkpoint(str(folder))


def finish_native(info: SnapshotInfo, draft: Path, known: set[str]) -> SnapshotInfo:
    """Complete a snapshot whose files are linked; `known` are those of the previous one."""
    files = sst_files(draft / DATABASE)
    complete = replace(info, new_files=sorted(files - known))
    complete.write(draft)
    finish_folder(draft, info.folder)
    return complete


def sst_files(folder: Path) -> set[str]:
    """Names of the files with rows."""
    return {path.name for path in folder.glob("*.sst")}


def native_parts(info: SnapshotInfo, keys: KeyLayout) -> Iterator[Part]:
    """The parts of a snapshot in the form of a RocksDB checkpoint."""
    with closing(Database(info.folder / DATABASE, read_only=True)) as database:
        record = database.record() or {"states": []}
        for each in record["states"]:
            schema = StateSchema.from_json(each)
            table = database.table(schema, keys)
            yield Part(schema.name, schema, table.rows)
            table.close()
        for name in database.families():
            if name.startswith(TIMERS):
                yield Part(name.removeprefix(TIMERS), None, timer_rows(database, name))


def timer_rows(database: Database, family: str) -> Callable[[KeyGroupRange], Iterator[Row]]:
    """The timers of a column family, as the rows of a part."""

    def rows(groups: KeyGroupRange) -> Iterator[Row]:
        timers = database.family(family)
        for group in range(groups.first, groups.last + 1):
            prefix = GROUP.pack(group)
            yield from (Row(row, b"") for row, _ in scan(timers, prefix, prefix))
        timers.close()

    return rows


def clone(info: SnapshotInfo, path: Path) -> None:
    """Create a database from a snapshot's files, which stay unchanged.

    Raises:
        SnapshotError: a file could not be copied; nothing is left in the new folder.
    """
    copies: list[Path] = []
    try:
        path.mkdir(parents=True, exist_ok=True)
        for file in (info.folder / DATABASE).iterdir():
            copies.append(path / file.name)
            _link_or_copy(file, copies[-1])
    except OSError as error:
        for each in copies:
            each.unlink(missing_ok=True)
        raise SnapshotError(
            f"{path} was not restored from {info.folder}: {error}; free disk space or restore "
            "access, then open it again"
        ) from error


def _link_or_copy(file: Path, copy: Path) -> None:
    if file.suffix == ".sst":
        try:
            os.link(file, copy)
            return
        except OSError:
            pass  # another file system: the bytes must be copied
    shutil.copy2(file, copy)
