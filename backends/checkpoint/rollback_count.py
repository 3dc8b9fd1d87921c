"""The number of rollbacks of a checkpoint, by which sinks recognize output of undone batches.

On disk, a rollback by one batch looks like a crash before the last commit. After a crash, sinks
keep what the batch has written, as other queries may have read it. After a rollback, they write it
again.
"""

from idlestate.backends.files.folder import Folder

_FILE = "idlestate-rollbacks"


def rollback_count(checkpoint: Folder) -> int:
    """The number of rollbacks of a checkpoint."""
    return int(checkpoint.read(_FILE)) if checkpoint.exists(_FILE) else 0


def count_rollback(checkpoint: Folder) -> None:
    """Count one more, before it undoes batches."""
    checkpoint.replace(_FILE, str(rollback_count(checkpoint) + 1).encode())
