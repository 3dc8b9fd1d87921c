"""Whether a disk that was full takes writes again."""

import os
from pathlib import Path

_TRIAL = "room.trial"


def has_room(folder: Path, n_bytes: int) -> bool:
    """Whether a file of so many bytes can be written in a folder, down to the disk."""
    trial = folder / _TRIAL
    try:
        try:
            with trial.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, n_bytes)
                os.fsync(file.fileno())
        finally:
            trial.unlink(missing_ok=True)
    except OSError:
        return False
    return True
