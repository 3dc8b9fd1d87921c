"""A message that the sidecar keeps in its store until it is needed."""

from idlestate.sidecar.protocol.errors import DamagedDirectoryError
from idlestate.sidecar.protocol.message import Message, MessageError


def stored_message(key: str, value: bytes) -> Message:
    """The message under a key of the store.

    Raises:
        DamagedDirectoryError: the value is not a message.
    """
    try:
        return Message.decode(value)
    except MessageError as error:
        raise DamagedDirectoryError(
            f"{key}: {error}: restore the sidecar's folder from a backup"
        ) from error
