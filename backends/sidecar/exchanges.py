"""Exchanges under way: what tasks have sent so far, under handles with a deadline.

A task's exchange is a series of short calls: open, one chunk at a time, finish, and the reply
chunk by chunk. Nothing of it is durable before `finish` has prepared it: a handle that is lost
costs the task one more try.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa

from idlestate.backends.sidecar.batches import Attempt, Prepared
from idlestate.backends.sidecar.errors import BusyError, GoneError
from idlestate.timers.clock import Clock

DEADLINE_S = 120.0
MAX_EXCHANGES = 1000
MAX_BYTES = 1 << 30
CHUNK_BYTES = 8 << 20
"""How much one call carries, about."""


@dataclass(slots=True)
class Exchange:
    """One task's exchange."""

    uid: str
    attempt: Attempt
    deadline_s: float
    parts: dict[tuple[int, int, int], bytes] = field(default_factory=dict)
    """Bytes by shard, packet and place in the packet: a chunk that comes twice counts once."""
    counts: dict[int, dict[str, int]] = field(default_factory=dict)
    size: int = 0
    prepared: Prepared | None = None
    reply: tuple[bytes, ...] = ()

    def packets(self) -> dict[int, list[bytes]]:
        """Whole packets per shard."""
        found: dict[int, dict[int, list[bytes]]] = {}
        for (shard, packet, _), data in sorted(self.parts.items()):
            found.setdefault(shard, {}).setdefault(packet, []).append(data)
        return {
            shard: [b"".join(pieces) for pieces in packets.values()]
            for shard, packets in found.items()
        }


class Exchanges:
    """The exchanges of one sidecar, by handle.

    Args:
        clock: measures deadlines.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, Exchange] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, uid: str, attempt: Attempt) -> str:
        """The handle of a new exchange.

        Raises:
            BusyError: too many are under way.
        """
        with self._lock:
            self._drop_late()
            if len(self._open) >= MAX_EXCHANGES:
                raise BusyError(f"{MAX_EXCHANGES} exchanges are under way")
            handle = uuid4().hex
            self._open[handle] = Exchange(uid, attempt, self._deadline_s())
            return handle

    def add(self, handle: str, at: tuple[int, int, int], data: bytes) -> None:
        """Take a chunk; one that came before takes the place of itself.

        Raises:
            GoneError: the exchange is over.
            BusyError: what all exchanges have sent is too much for the moment.
        """
        found = self.get(handle)
        with self._lock:
            added = len(data) - len(found.parts.get(at, b""))
            if sum(each.size for each in self._open.values()) + added > MAX_BYTES:
                raise BusyError(f"{MAX_BYTES >> 30} GB of rows wait to be taken in")
            found.parts[at] = data
            found.size += added

    def get(self, handle: str) -> Exchange:
        """An exchange, whose deadline begins anew.

        Raises:
            GoneError: it is over.
        """
        with self._lock:
            self._drop_late()
            if handle not in self._open:
                raise GoneError("the exchange is not known (any more)")
            found = self._open[handle]
            found.deadline_s = self._deadline_s()
            return found

    def close(self, handle: str) -> None:
        """Forget an exchange."""
        with self._lock:
            self._open.pop(handle, None)

    def _deadline_s(self) -> float:
        return self._clock.monotonic_s() + DEADLINE_S

    def _drop_late(self) -> None:
        now_s = self._clock.monotonic_s()
        for handle in [h for h, each in self._open.items() if each.deadline_s < now_s]:
            del self._open[handle]


def in_chunks(rows: pa.Table) -> Iterator[bytes]:
    """A table as Arrow streams of about `CHUNK_BYTES`; at least one."""
    per_row = max(1, rows.nbytes // max(1, len(rows)))
    step = max(1, CHUNK_BYTES // per_row)
    for begin in range(0, max(1, len(rows)), step):
        yield stream_of(rows.slice(begin, step))


def stream_of(rows: pa.Table) -> bytes:
    """A table as one Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
