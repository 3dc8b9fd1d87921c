"""The placement of all shards in the sidecar's own process."""

from collections.abc import Callable, Sequence
from typing import Protocol

from idlestate.sidecar.core.local_shard_work import ShardWork
from idlestate.sidecar.core.shard_work import Work
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.transfers import Stage
from idlestate.sidecar.stores.store import Store
from idlestate.timers.clock import Clock

DEFAULT_CACHE_BYTES = 4 << 30


class Works(Protocol):
    """The work on all operators, spread over ranges of shards."""

    stage: Stage | None
    """Where packets arrive; None if each range has its own stage."""
    places: Sequence[str]
    """Per range the suffix of the sidecar's address that leads to it."""

    def of(self, declaration: Declaration) -> Work:
        """The work on an operator."""

    tidy: Callable[[], None]
    """Removes values that no record names any more, as far as their removal was postponed."""
    bytes_on_disk: Callable[[], int]
    """The bytes that they take on disk in addition to the operators' own store."""


class OneRange:
    """All shards in one range, in this process.

    Args:
        store: the store of everything.
        clock: measures the deadlines of transfers.
        cache_bytes: the cache of each operator's tables.
    """

    def __init__(self, store: Store, clock: Clock, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._own_stage = Stage(clock)
        self.stage: Stage | None = self._own_stage
        self.places: Sequence[str] = ("",)
        self.tidy: Callable[[], None] = lambda: None
        self.bytes_on_disk: Callable[[], int] = lambda: 0
        self._store = store
        self._cache_bytes = cache_bytes

    def of(self, declaration: Declaration) -> Work:
        """See `Works`."""
        return ShardWork(self._store, declaration, self._cache_bytes, self._own_stage)
