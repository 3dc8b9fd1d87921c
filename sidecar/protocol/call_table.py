"""Calls by name: a message in, a message out; independent of the network.

Every call can be repeated if its answer was lost. Rows travel as Arrow streams.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from idlestate.sidecar.protocol.errors import BusyError, DoesNotFitError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.protocol.transfers import CHUNK_BYTES, Stage

MAX_CALL_BYTES = 4 * CHUNK_BYTES
MAX_HEADER_BYTES = 2 << 20
"""Limit for a client's call: `json` blocks all other threads while it reads a header."""

_UNREADABLE = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""The errors caused by a header field that is missing or has another type."""

Header = dict[str, Any]
Parts = tuple[bytes, ...]
Call = Callable[[Header, Parts], Message]


class CallTable:
    """Answers calls.

    Args:
        by_name: the calls.
        most_bytes: the maximum size of a call; None if only our own processes call.
    """

    def __init__(
        self, by_name: Mapping[str, Call], most_bytes: int | None = MAX_CALL_BYTES
    ) -> None:
        self.by_name = dict(by_name)
        self._most_bytes = most_bytes
        self._is_draining = False
        self._busy = 0
        self._idle = threading.Condition()

    def answer(self, name: str, body: bytes) -> bytes:
        """Answer one call.

        Raises:
            SidecarError: what is wrong, and how to fix it.
        """
        if self._most_bytes is not None and len(body) > self._most_bytes:
            raise DoesNotFitError(
                f"a call of {len(body) >> 20} MB; send at most {self._most_bytes >> 20} MB at a "
                "time"
            )
        call = self.by_name.get(name)
        if call is None:
            raise DoesNotFitError(f"unknown call {name[:80]!r}")
        is_ours = self._most_bytes is None
        message = Message.decode(body, None if is_ours else MAX_HEADER_BYTES)
        with self._idle:
            if self._is_draining:
                raise BusyError("the sidecar is stopping; retry after its restart")
            self._busy += 1
        try:
            return call(message.header, message.parts).encode()
        except _UNREADABLE as error:
            raise DoesNotFitError(f"call {name} cannot be understood: {error!r}") from error
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def drain(self, timeout_s: float | None = None) -> bool:
        """Accept no more calls, and wait for the current ones; return whether all have ended."""
        with self._idle:
            self._is_draining = True
            return self._idle.wait_for(lambda: not self._busy, timeout=timeout_s)


def stage_calls(stage: Stage) -> dict[str, Call]:
    """The calls with which clients send bytes and fetch replies."""

    def chunk(header: Header, parts: Parts) -> Message:
        shard, packet, place = (int(each) for each in header["at"])
        is_first = bool(header["is_first"])
        stage.add(str(header["handle"]), (shard, packet, place), parts[0], is_first=is_first)
        return Message({})

    def fetch(header: Header, _parts: Parts) -> Message:
        return Message({}, (stage.fetch(str(header["handle"]), int(header["at"])),))

    def close(header: Header, _parts: Parts) -> Message:
        stage.close(str(header["handle"]))
        return Message({})

    return {"chunk": chunk, "fetch": fetch, "close": close}
