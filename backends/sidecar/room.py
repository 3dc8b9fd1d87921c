"""Whether a disk that was full takes writes again."""

import os
import shutil
import tempfile
from pathlib import Path

_PIECE_BYTES = 1 << 20


def has_room(folder: Path, n_bytes: int) -> bool:
    """Whether a file of so many bytes can be written in a folder, down to the disk.

    It has no name, so that nothing is left of it however this ends, and it is not begun where it
    would take the last room from those that can still write.
    """
    try:
        if shutil.disk_usage(folder).free < n_bytes:
            return False
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:  # on macOS
                for begin in range(0, n_bytes, _PIECE_BYTES):
                    file.write(bytes(min(_PIECE_BYTES, n_bytes - begin)))
                file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    return True
