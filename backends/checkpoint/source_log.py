"""The logs of Spark's file sources in a checkpoint: which files belong to which offset.

`sources/<n>/<offset>` lists files in one line of JSON each. About every tenth is
`<offset>.compact`, which also lists the files of all earlier offsets; Spark keeps the entries of
these for at least `minBatchesToRetain` offsets. An entry is written before the batch that reads its
files is planned. Other sources store other data there, or none.
"""

import json
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import forget_entry, newest_batch, source_offsets

_COMPACT = ".compact"


def files_read_after(checkpoint: Folder, batch_id: int) -> list[str]:
    """URLs of the files in entries after a batch, by source and path."""
    found = []
    for source, reached in _sources(checkpoint, batch_id).items():
        seen: dict[str, int] = {}
        for name in _notes(checkpoint, source).values():
            files = _files(checkpoint, f"{source}/{name}")
            seen |= {each["path"]: each["batchId"] for each in files}
        found += sorted(path for path, offset in seen.items() if offset > reached)
    return found


def files_of_batch(checkpoint: Folder, batch_id: int) -> list[str]:
    """URLs of the files that a planned batch reads, by source and path."""
    found = []
    before = _sources(checkpoint, batch_id - 1 if batch_id else None)
    for source, reached in _sources(checkpoint, batch_id).items():
        notes = _notes(checkpoint, source)
        offsets = range(before[source] + 1, reached + 1)
        names = [notes[offset] for offset in offsets if offset in notes]
        found += sorted(
            {path for name in names for path in _newest_files(checkpoint, source, name, offsets)}
        )
    return found


def files_read(checkpoint: Folder) -> list[Iterator[str]]:
    """URLs of all files in entries, by source; some occur more than once."""

    def read(source: str) -> Iterator[str]:
        for name in _notes(checkpoint, source).values():
            for each in _files(checkpoint, f"{source}/{name}"):
                yield each["path"]

    return [read(source) for source in _sources(checkpoint, None)]


def forget_unplanned(checkpoint: Folder) -> None:
    """Remove entries after the newest planned batch, before its query starts.

    They belong to a batch that was not planned because of a crash, or that a rollback undid. Spark
    would put all of their files into the next batch, even beyond its limit of files.
    """
    for source, reached in _sources(checkpoint, newest_batch(checkpoint, "offsets")).items():
        notes = _notes(checkpoint, source)
        if reached >= 0 and reached not in notes:
            continue  # Spark removed it: only a compact entry lists the files read
        for offset in sorted(notes, reverse=True):
            name = notes[offset]
            if offset > reached and _files(checkpoint, f"{source}/{name}"):
                forget_entry(checkpoint, source, name)


def _sources(checkpoint: Folder, batch_id: int | None) -> dict[str, int]:
    """The folder of each source, and the file offset that it reached with a batch, else -1."""
    texts = [] if batch_id is None else source_offsets(checkpoint, batch_id)
    offsets = [json.loads(text) if text.startswith("{") else {} for text in texts]
    reached = {str(number): each.get("logOffset", -1) for number, each in enumerate(offsets)}
    numbers = [name for name in checkpoint.names("sources") if name.isdigit()]
    return {f"sources/{number}": int(reached.get(number, -1)) for number in numbers}


def _notes(checkpoint: Folder, source: str) -> dict[int, str]:
    """Names of a source's entries by offset."""
    return {
        int(offset): name
        for name in checkpoint.names(source)
        if (offset := name.removesuffix(_COMPACT)).isdigit()
    }


def _files(checkpoint: Folder, note: str) -> list[dict[str, Any]]:
    """The files in an entry; none if it does not belong to a file source."""
    return list(filter(None, map(_file, _lines(checkpoint, note))))


def _newest_files(checkpoint: Folder, source: str, name: str, offsets: range) -> Iterator[str]:
    """URLs of the files of these offsets at the end of an entry: a compact one lists all files ever
    read, the newest last.
    """
    newest_first = map(_file, reversed(_lines(checkpoint, f"{source}/{name}")))
    for file in takewhile(lambda file: file.get("batchId") in offsets, newest_first):
        yield file["path"]


def _lines(checkpoint: Folder, note: str) -> list[str]:
    """The lines of an entry after its version."""
    return checkpoint.read(note).decode().splitlines()[1:]


def _file(line: str) -> dict[str, Any]:
    """The file in a line; empty if it does not belong to a file source."""
    entry: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    return entry if entry.keys() >= {"path", "batchId"} else {}
