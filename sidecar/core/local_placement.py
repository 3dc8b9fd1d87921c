"""Where the tables of a sidecar's operators are kept: in its own process, or over several."""

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
    """Where packets come in; None when each range has a stage of its own."""
    places: Sequence[str]
    """Per range what is put behind the sidecar's own address to reach it."""

    def of(self, declaration: Declaration) -> Work:
        """The work on an operator."""

    tidy: Callable[[], None]
    """Gives values back that no record names any more, as far as that has been put off."""
    bytes_on_disk: Callable[[], int]
    """How much they take on disk beside the operators' own store."""


class OneRange:
    """All shards in one range, in this process.

    Args:
        store: where everything is.
        clock: measures deadlines of what clients hand over.
        cache_bytes: how much each operator may keep of its tables in memory.
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
        """As of `Works`."""
        return ShardWork(self._store, declaration, self._cache_bytes, self._own_stage)
