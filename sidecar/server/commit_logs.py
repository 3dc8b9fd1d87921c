"""The commit logs of queries: the proof that a batch was committed."""

from idlestate.backends.files.batch_log import reached_watermark_ms
from idlestate.backends.files.folder import Folder
from idlestate.errors import IdlestateError


def reached_ms(checkpoint: str, batch_id: int) -> int | None:
    """How far event time got with a batch, if a query's checkpoint says that it was committed.

    A checkpoint that cannot be read says nothing: the question is asked again.
    """
    try:
        folder = Folder(checkpoint)
        if not folder.exists(f"commits/{batch_id}"):
            return None
        return reached_watermark_ms(folder, batch_id)
    except (OSError, IdlestateError):
        return None
