"""Whether a disk that was full takes writes again."""

import os
import shutil
import tempfile
from pathlib import Path


def has_room(folder: Path, n_bytes: int) -> bool:
    """Whether a file of so many bytes can be written in a folder, down to the disk.

    It has no name, so that nothing is left of it however this ends, and it is not begun where it
    would take the last room from those that can still write.
    """
    try:
        if shutil.disk_usage(folder).free < n_bytes:
            return False
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            os.fsync(file.fileno())
    except OSError:
        return False
    return True
