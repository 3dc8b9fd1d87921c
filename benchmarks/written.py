"""Bytes that batches wrote into a checkpoint, from the files that are still in it.

Nothing is removed within Spark's default of 100 retained batches, so what is there is what was
written. idlestate's runs begin with their batch, Spark's state files with the version that the
batch made (batch + 1), its logs are named by the batch.
"""

import re
from collections import Counter
from pathlib import Path

_NUMBER = re.compile(r"(\d+)")


def written_per_batch(checkpoint: Path) -> dict[int, int]:
    """Bytes per batch id, checksums beside files included; files named otherwise count nowhere."""
    found: Counter[int] = Counter()
    for path in checkpoint.rglob("*"):
        parts = path.relative_to(checkpoint).parts
        number = _NUMBER.match(path.name.removeprefix("."))
        if not path.is_file() or number is None:
            continue
        is_version = parts[0] == "state" and not parts[2].startswith("_")
        found[int(number[1]) - is_version] += path.stat().st_size
    return dict(found)
