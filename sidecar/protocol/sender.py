"""Sends bytes to the ranges of their shards, under one handle and in chunks."""

from idlestate.sidecar.protocol.routes import Routes
from idlestate.sidecar.protocol.transfers import CHUNK_BYTES


class Sender:
    """Sends bytes under a handle.

    Args:
        routes: the ranges of the sidecar.
        handle: the handle.
        shards: the number of shards of the operator.

    Attributes:
        ranges: the ranges to which something was sent.
    """

    def __init__(self, routes: Routes, handle: str, shards: int) -> None:
        self._routes = routes
        self._handle = handle
        self._shards = shards
        self.ranges: set[int] = set()

    def send(self, shard: int, number: int, data: bytes) -> None:
        """Send the bytes with this number among those of a shard."""
        at = self._routes.range_of(shard, self._shards)
        for place, begin in enumerate(range(0, len(data), CHUNK_BYTES)):
            chunk = {
                "handle": self._handle,
                "at": [shard, number, place],
                "is_first": at not in self.ranges,
            }
            self._routes.to_range(at).call("chunk", chunk, data[begin : begin + CHUNK_BYTES])
            self.ranges.add(at)
