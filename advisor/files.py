"""Files and folders of events."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from idlestate.advisor.events import Reading, check_columns
from idlestate.errors import RefusedError

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
        RefusedError: nothing is there, the format is not known, or a file cannot be read.
    """
    if not path.exists():
        raise RefusedError(f"{path}: no such file or folder")
    files = _files(path)
    formats = {_format(file) for file in files}
    if len(formats) != 1 or None in formats:
        shown = ", ".join(sorted({file.suffix or file.name for file in files})) or "no files"
        raise RefusedError(
            f"{path} holds {shown}; pass a file or folder of one format: .parquet, .csv, .json, "
            ".jsonl or .ndjson (the last four may end in .gz)"
        )
    try:
        data = ds.dataset([str(file) for file in files], format=formats.pop())
        check_columns(data.schema.names, reading)
        return data.to_table(columns=list(reading.columns))
    except (pa.ArrowException, OSError) as error:
        raise RefusedError(f"{path} cannot be read: {error}") from error


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(
        each
        for each in path.rglob("*")
        if each.is_file() and not any(part[0] in "._" for part in each.relative_to(path).parts)
    )


def _format(file: Path) -> str | None:
    endings = [suffix for suffix in file.suffixes if suffix != ".gz"]
    return _FORMATS.get(endings[-1].lower()) if endings else None
