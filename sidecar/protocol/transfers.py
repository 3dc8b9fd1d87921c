"""Transfers of bytes in pieces, to and from clients, under handles with a deadline.

A client chooses a handle, sends bytes in short calls, makes a call that uses them, and fetches the
reply. Nothing of this is durable: if a handle is lost, the client tries again.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from idlestate.sidecar.protocol.errors import LOST, BusyError, GoneError
from idlestate.timers.clock import Clock

DEADLINE_S = 120.0
MAX_HANDLES = 1000
MAX_BYTES = 1 << 30
CHUNK_BYTES = 8 << 20
"""About how many bytes one call carries."""

Place = tuple[int, int, int]
"""Shard, packet and position in the packet."""


@dataclass(slots=True)
class _Pile:
    deadline_s: float
    parts: dict[Place, bytes] = field(default_factory=dict)
    """Chunks by position, so that a repeated chunk counts once."""
    size: int = 0
    reply: tuple[bytes, ...] | None = None


class Stage:
    """The handles of one process.

    Args:
        clock: measures deadlines.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._piles: dict[str, _Pile] = {}

    def add(self, handle: str, at: Place, data: bytes, *, is_first: bool) -> None:
        """Add a chunk; the first chunk of a handle creates it.

        Raises:
            GoneError: the handle is unknown or expired.
            BusyError: too many bytes are waiting at the moment.
        """
        with self._lock:
            self._drop_late()
            if is_first and handle not in self._piles:
                if len(self._piles) >= MAX_HANDLES:
                    raise BusyError(f"{MAX_HANDLES} exchanges are in progress; retry later")
                self._piles[handle] = _Pile(self._deadline_s())
            found = self._get(handle)
            added = len(data) - len(found.parts.get(at, b""))
            if sum(each.size for each in self._piles.values()) + added > MAX_BYTES:
                raise BusyError(
                    f"{MAX_BYTES >> 30} GB of rows are waiting; if this persists, "
                    "let the query take smaller batches"
                )
            found.parts[at] = data
            found.size += added

    def packets(self, handle: str) -> dict[int, list[bytes]]:
        """Complete packets per shard.

        Raises:
            GoneError: the handle is unknown or expired.
        """
        with self._lock:
            pile = self._get(handle)
            if pile.reply is not None:
                raise GoneError("the request was processed, but its reply was lost")
            parts = sorted(pile.parts.items())
        found: dict[int, dict[int, list[bytes]]] = {}
        for (shard, packet, _), data in parts:
            found.setdefault(shard, {}).setdefault(packet, []).append(data)
        return {
            shard: [b"".join(pieces) for pieces in packets.values()]
            for shard, packets in found.items()
        }

    def reply(self, handle: str, reply: tuple[bytes, ...]) -> None:
        """Replace the received bytes by a reply."""
        with self._lock:
            found = self._piles.setdefault(handle, _Pile(self._deadline_s()))
            found.parts, found.size, found.reply = {}, sum(map(len, reply)), reply

    def fetch(self, handle: str, at: int) -> bytes:
        """A part of the reply.

        Raises:
            GoneError: the handle is unknown or expired.
        """
        with self._lock:
            return (self._get(handle).reply or ())[at]

    def close(self, handle: str) -> None:
        """Forget a handle."""
        with self._lock:
            self._piles.pop(handle, None)

    def _get(self, handle: str) -> _Pile:
        if handle not in self._piles:
            raise GoneError(LOST)
        found = self._piles[handle]
        found.deadline_s = self._deadline_s()
        return found

    def _deadline_s(self) -> float:
        return self._clock.monotonic_s() + DEADLINE_S

    def _drop_late(self) -> None:
        now_s = self._clock.monotonic_s()
        for handle in [h for h, each in self._piles.items() if each.deadline_s < now_s]:
            del self._piles[handle]


def in_chunks(rows: pa.Table) -> Iterator[bytes]:
    """A table as Arrow streams of about `CHUNK_BYTES`; at least one."""
    per_row = max(1, rows.nbytes // max(1, len(rows)))
    step = max(1, CHUNK_BYTES // per_row)
    for begin in range(0, max(1, len(rows)), step):
        yield stream_of(rows.slice(begin, min(step, len(rows) - begin)))


def stream_of(rows: pa.Table) -> bytes:
    """A table as one Arrow stream."""
    # Memory of the C library: Arrow's allocator returns pages that the next call needs again.
    sink = pa.BufferOutputStream(pa.system_memory_pool())
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
