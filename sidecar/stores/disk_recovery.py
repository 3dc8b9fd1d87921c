"""Detects a full disk, and whether it accepts writes again."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

from idlestate.sidecar.protocol.errors import DamagedDirectoryError, DiskFullError, SidecarError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PIECE_BYTES = 1 << 20


def failed_write(where: str, error: Exception, *, is_broken: bool) -> SidecarError:
    """The error to raise for a failed write.

    Args:
        where: the target of the write.
        error: an `OSError`, or an error of RocksDB whose text contains the system's message.
        is_broken: whether the store accepts no more writes until it is opened again.
    """
    told = f"{where}: {getattr(error, 'strerror', None) or error}"
    told += "" if is_broken else "; nothing has changed"
    if any(os.strerror(number) in told for number in _FULL):
        restart = ", restart the sidecar unless its supervisor does" if is_broken else ""
        return DiskFullError(
            f"{told}; the sidecar's disk is full; free some space{restart}, and send the write "
            "again"
        )
    restart = ", then restart the sidecar" if is_broken else ""
    return DamagedDirectoryError(f"{told}; check the disk{restart}")


def has_room(folder: Path, n_bytes: int) -> bool:
    """Whether a file of this size can be written and synced in a folder.

    The file has no name, so that it always disappears. It is not written if it would take the last
    space from other processes.
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
