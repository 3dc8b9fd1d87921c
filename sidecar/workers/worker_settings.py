"""The settings of a worker process, as the sidecar's process sends them."""

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker.

    Attributes:
        folder: the folder of its store.
        backend, sync, cache_bytes: the sidecar's settings.
        inner: the socket for the sidecar's process.
        listen: the address for clients, which send rows there.
        token_file, tls: how clients are authenticated.
    """

    folder: str
    backend: str
    sync: bool
    cache_bytes: int
    inner: str
    listen: str
    token_file: str | None
    tls: dict[str, Any] | None

    def to_line(self) -> bytes:
        """The settings as the line that it reads."""
        return json.dumps(asdict(self)).encode() + b"\n"
