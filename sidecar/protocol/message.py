"""A message: a small JSON header and binary parts; on the wire, in logs and as values.

Layout, version 1: 4 bytes `IDM1`; big-endian uint32 n; n bytes of JSON `[header, [length, ...]]`;
the parts one after the other.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any

from idlestate.errors import RefusedError
from idlestate.sidecar.protocol.errors import DoesNotFitError, SidecarError

PROTOCOL = 5
"""The version of calls and their headers, which `hello` returns. 2: `settle` returns `owed_ms` and
`inputs`, and `open` the version of the tables; `finish` takes counts by input; `records`, `value`
and `take` are for steps that tasks make. 3: `right` is the policy of right rows of a join."""
_MAGIC = b"IDM1"
_HEAD = struct.Struct(">4sI")
MAX_HEADER_BYTES = 1 << 26


class MessageError(SidecarError, RefusedError):
    """Bytes that are not a complete message: the peer is not a sidecar, or has another version."""

    code = DoesNotFitError.code


@dataclass(frozen=True, slots=True)
class Message:
    """A header for `json`, and parts."""

    header: dict[str, Any]
    parts: tuple[bytes, ...] = ()

    def pieces(self) -> list[bytes]:
        """The message in pieces to join."""
        text = json.dumps([self.header, [len(part) for part in self.parts]]).encode()
        return [_HEAD.pack(_MAGIC, len(text)) + text, *self.parts]

    def encode(self) -> bytes:
        """The message as bytes."""
        return b"".join(self.pieces())

    @classmethod
    def decode(cls, data: bytes, most_header_bytes: int | None = None) -> "Message":
        """Read it back.

        Args:
            data: the message.
            most_header_bytes: the maximum size of the header (None: `MAX_HEADER_BYTES`).

        Raises:
            MessageError: it is not a message.
        """
        if len(data) < _HEAD.size:
            raise MessageError("a message has no header length")
        magic, length = _HEAD.unpack_from(data)
        most = MAX_HEADER_BYTES if most_header_bytes is None else most_header_bytes
        if magic == _MAGIC and most < length <= len(data):
            raise MessageError(
                f"a message with a header of {length >> 10} KB; the most is {most >> 10}"
            )
        if magic != _MAGIC or length > most or _HEAD.size + length > len(data):
            raise MessageError("this is not a message of this version of idlestate")
        try:
            header, lengths = json.loads(data[_HEAD.size : _HEAD.size + length])
            sizes = [int(each) for each in lengths]
        except (OverflowError, RecursionError, TypeError, ValueError) as error:
            raise MessageError("a message has no header that can be read") from error
        at = _HEAD.size + length
        is_whole = all(size >= 0 for size in sizes) and at + sum(sizes) == len(data)
        if not isinstance(header, dict) or not is_whole:
            raise MessageError("a message has an invalid header or the wrong length")
        parts = []
        for size in sizes:
            parts.append(data[at : at + size])
            at += size
        return cls(header, tuple(parts))
