"""The commit logs of queries, which prove that a batch was committed."""

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import reached_watermark_ms
from idlestate.errors import IdlestateError


def reached_ms(checkpoint: str, batch_id: int) -> int | None:
    """The event time that a batch reached, if the query's checkpoint shows that it was committed.

    None also if the checkpoint cannot be read: callers ask again.
    """
    try:
        folder = Folder(checkpoint)
        if not folder.exists(f"commits/{batch_id}"):
            return None
        return reached_watermark_ms(folder, batch_id)
    except (OSError, IdlestateError):
        return None
