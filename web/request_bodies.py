"""Bodies of requests: how long they may be, and how many long ones are in memory at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http import HTTPStatus
from typing import Final

from idlestate.web.http_reply import Reply, error_reply
from idlestate.web.request_reader import RequestReader

MAX_SHORT_BYTES: Final = 8 * 1024
"""The longest body of an ordinary request, within the size and time of its headers."""
MAX_UPLOADS: Final = 2
SLOWEST_BYTES_A_SECOND: Final = 1 << 20


def refuse_body(headers: Message, most_bytes: int) -> Reply | None:
    """Reject a body that is too long or of unknown length; None accepts it."""
    length = headers.get("Content-Length")
    if "Transfer-Encoding" in headers:
        return error_reply(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length")
    if length is None or (length.isascii() and length.isdigit()):
        if len(length or "") < 10 and int(length or 0) <= most_bytes:
            return None
        text = f"the body is too long; send at most {most_bytes:,} bytes"
        return error_reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    return error_reply(HTTPStatus.BAD_REQUEST, "Content-Length is not a number")


class Uploads:
    """Admits requests by the length of their bodies."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(MAX_UPLOADS)

    @contextmanager
    def room(self, length: int, reader: RequestReader, timeout_s: float) -> Iterator[bool]:
        """Whether there is room for a body, until the request is answered.

        Args:
            length: the length of the body, in bytes.
            reader: reads the body; gets more time for a long one.
            timeout_s: the time limit of a short body.
        """
        if length <= MAX_SHORT_BYTES:
            yield True
        elif self._free.acquire(blocking=False):
            try:
                reader.expect(length, timeout_s + length / SLOWEST_BYTES_A_SECOND)
                yield True
            finally:
                self._free.release()
        else:
            yield False
