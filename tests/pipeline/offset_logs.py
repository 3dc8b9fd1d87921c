"""Entries of a checkpoint's offset log as Spark writes them, for tests without Spark."""

import json
from pathlib import Path


def plan(checkpoint: Path, batch_id: int, time_ms: int, read_up_to: int) -> None:
    """A batch planned at this time, which reads its source up to this offset."""
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": time_ms, "conf": {}}
    offset = {"logOffset": read_up_to}
    lines = ("v1", json.dumps(metadata), json.dumps(offset))
    (folder / str(batch_id)).write_text("\n".join(lines))
