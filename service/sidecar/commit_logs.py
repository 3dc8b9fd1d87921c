"""The commit logs of queries: the proof that a batch was committed."""

from idlestate.pipeline.folder import Folder


def is_committed(checkpoint: str, batch_id: int) -> bool:
    """Whether a query's checkpoint says that a batch was committed.

    A checkpoint that cannot be read says nothing: the question is asked again.
    """
    try:
        return Folder(checkpoint).exists(f"commits/{batch_id}")
    except (OSError, ValueError):
        return False
