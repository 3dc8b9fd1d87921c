"""What a run wrote, as plain rows."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def rows(folder: Path) -> list[dict[str, Any]]:
    """Rows of a sink folder with their batch, in order of batches."""
    found = []
    for path in folder.glob("batch_id=*/*.parquet"):
        batch_id = int(path.parent.name.partition("=")[2])
        for row in pq.ParquetFile(path).read().to_pylist():
            found.append({**row, "batch_id": batch_id})
    return sorted(found, key=lambda row: row["batch_id"])


def last_counts(folder: Path, name: str = "n") -> dict[Any, int]:
    """The newest value of an aggregate for each user."""
    return {row["user"]: row[name] for row in rows(folder)}
