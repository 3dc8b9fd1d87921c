"""Files and folders of events."""

from pathlib import Path, PurePath

import pyarrow as pa
import pyarrow.dataset as ds

from idlestate.advisor.event_columns import Reading, check_columns
from idlestate.errors import RefusedError

_SHOWN = 300
_FORMATS = {
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
}


def read_events(path: Path, reading: Reading) -> pa.Table:
    """The key and time columns of a file, or of all files of a folder, in the order of their names.

    Raises:
        RefusedError: the path does not exist, the format is unknown, or a file cannot be read.
    """
    kind, files = files_of(path)
    try:
        data = ds.dataset([str(file) for file in files], format=kind)
        check_columns(data.schema.names, reading)
        return data.to_table(columns=list(reading.columns))
    except (pa.ArrowException, OSError) as error:
        raise RefusedError(f"{path} cannot be read: {_on_one_line(error)}") from error


def _on_one_line(error: Exception) -> str:
    """Arrow's message on one line; it may repeat bytes of the file."""
    text = "".join(each if each.isprintable() else " " for each in str(error))
    return f"{text[:_SHOWN]}..." if len(text) > _SHOWN else text


def files_of(path: Path) -> tuple[str, list[Path]]:
    """The format of a log, and its files in the order of their names.

    Raises:
        RefusedError: the path does not exist, or the format is unknown.
    """
    if not path.exists():
        raise RefusedError(f"{path}: no such file or folder")
    files = [path] if path.is_file() else _files_in(path)
    formats = {format_of(file) for file in files}
    kind = formats.pop() if len(formats) == 1 else None
    if kind is None:
        shown = ", ".join(sorted({file.suffix or file.name for file in files})) or "no files"
        raise RefusedError(
            f"{path} holds {shown}; pass a file or folder of one format: .parquet, .csv, .json, "
            ".jsonl or .ndjson (the last four may end in .gz)"
        )
    return kind, files


def format_of(file: PurePath) -> str | None:
    """The format of a file by its name; None if it is not known."""
    endings = [suffix for suffix in file.suffixes if suffix != ".gz"]
    return _FORMATS.get(endings[-1].lower()) if endings else None


def _files_in(folder: Path) -> list[Path]:
    return sorted(
        each
        for each in folder.rglob("*")
        if each.is_file() and not any(part[0] in "._" for part in each.relative_to(folder).parts)
    )
