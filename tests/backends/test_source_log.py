"""Notes of file sources, as Spark writes them, before a query starts."""

import json
from pathlib import Path

import pytest

from idlestate.backends.checkpoint.source_log import (
    files_of_batch,
    files_read_after,
    forget_unplanned,
)
from idlestate.backends.files.folder import Folder


def note(checkpoint: Path, offset: int, *, first: int | None = None, source: int = 0) -> None:
    """A note of one file for each offset, or a compact one from an offset on."""
    folder = checkpoint / "sources" / str(source)
    folder.mkdir(parents=True, exist_ok=True)
    offsets = range(offset if first is None else first, offset + 1)
    files = [{"path": f"file:///in/{n}", "timestamp": n, "batchId": n} for n in offsets]
    name = str(offset) if first is None else f"{offset}.compact"
    (folder / name).write_text("\n".join(["v1", *map(json.dumps, files)]))
    (folder / f".{name}.crc").write_bytes(b"")


def plan(checkpoint: Path, batch_id: int, *reached: int | None) -> None:
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    offsets = ["-" if at is None else json.dumps({"logOffset": at}) for at in reached]
    (folder / str(batch_id)).write_text("\n".join(["v1", "{}", *offsets]))


def notes(checkpoint: Path, source: int = 0) -> set[str]:
    names = {path.name for path in (checkpoint / "sources" / str(source)).iterdir()}
    assert {f".{name}.crc" for name in names if name[0] != "."} == {n for n in names if n[0] == "."}
    return {name for name in names if name[0] != "."}


@pytest.mark.parametrize(
    ("reached", "kept"),
    [
        (3, {"0", "1", "2.compact", "3"}),
        (2, {"0", "1", "2.compact"}),
        (1, {"0", "1"}),
        (None, set()),
    ],
)
def test_notes_after_the_planned_offset_go(
    tmp_path: Path, reached: int | None, kept: set[str]
) -> None:
    note(tmp_path, 0)
    note(tmp_path, 1)
    note(tmp_path, 2, first=0)
    note(tmp_path, 3)
    note(tmp_path, 4)
    note(tmp_path, 5, first=0)
    plan(tmp_path, 7, reached)
    forget_unplanned(Folder(str(tmp_path)))
    assert notes(tmp_path) == kept


def test_all_notes_go_if_no_batch_was_planned(tmp_path: Path) -> None:
    note(tmp_path, 0)
    forget_unplanned(Folder(str(tmp_path)))
    assert notes(tmp_path) == set()


def test_a_compact_note_that_is_the_only_record_stays(tmp_path: Path) -> None:
    note(tmp_path, 5, first=0)
    note(tmp_path, 6)
    plan(tmp_path, 4, 4)
    forget_unplanned(Folder(str(tmp_path)))
    assert notes(tmp_path) == {"5.compact", "6"}


@pytest.mark.parametrize("text", ['\0v1\n{"topic":{"0":17}}', "v1\n1741000000000", "v1"])
def test_what_other_sources_keep_stays(tmp_path: Path, text: str) -> None:
    note(tmp_path, 0)
    note(tmp_path, 1)
    other = tmp_path / "sources" / "1"
    other.mkdir()
    (other / "0").write_text(text)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}\n{"topic":{"0":20}}')
    forget_unplanned(Folder(str(tmp_path)))
    assert notes(tmp_path) == {"0"}
    assert (other / "0").read_text() == text


def test_files_after_a_batch_are_named_once_in_order(tmp_path: Path) -> None:
    for offset in (0, 1, 3):
        note(tmp_path, offset)
    note(tmp_path, 2, first=0)
    plan(tmp_path, 1, 1)
    assert files_read_after(Folder(str(tmp_path)), 1) == ["file:///in/2", "file:///in/3"]


def test_the_files_of_a_batch_are_those_after_the_batch_before(tmp_path: Path) -> None:
    for offset in (0, 1, 3):
        note(tmp_path, offset)
    note(tmp_path, 2, first=0)
    note(tmp_path, 0, source=1)
    plan(tmp_path, 0, 1, None)
    plan(tmp_path, 1, 2, 0)
    plan(tmp_path, 2, 2, 0)
    checkpoint = Folder(str(tmp_path))
    files = [[url.rpartition("/")[2] for url in files_of_batch(checkpoint, at)] for at in range(3)]
    assert files == [["0", "1"], ["2", "0"], []]
