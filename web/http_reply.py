"""HTTP replies. Every error is JSON: `{"error": "..."}`."""

import json
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

PLAIN: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply."""

    body: bytes
    kind: str = PLAIN
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()

    def lines(self) -> bytes:
        """The reply as bytes, for a client whose request was not read."""
        head = f"HTTP/1.0 {self.status.value} {self.status.phrase}\r\nContent-Type: {self.kind}\r\n"
        return f"{head}Content-Length: {len(self.body)}\r\n\r\n".encode() + self.body


def json_reply(value: object, status: HTTPStatus = HTTPStatus.OK) -> Reply:
    """A value as JSON."""
    return Reply(json.dumps(value, allow_nan=False).encode() + b"\n", JSON, status)


def error_reply(status: HTTPStatus, text: str, **headers: str) -> Reply:
    """The reply for an error."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return replace(json_reply({"error": text}, status), headers=named)


def not_allowed(methods: str) -> Reply:
    """The reply to a method that a path does not support, with the ones that it supports."""
    text = f"this path accepts {methods}"
    return error_reply(HTTPStatus.METHOD_NOT_ALLOWED, text, Allow=methods)
