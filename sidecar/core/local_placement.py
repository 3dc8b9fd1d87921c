"""The placement of all shards in the sidecar's own process."""

from collections.abc import Callable, Sequence

from idlestate.sidecar.core.local_shard_executor import LocalShardExecutor
from idlestate.sidecar.core.shard_executor import ShardExecutor
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.transfers import Stage
from idlestate.sidecar.stores.store import Store
from idlestate.timers.clock import Clock

DEFAULT_CACHE_BYTES = 4 << 30


class LocalPlacement:
    """All shards in one range, in this process.

    Args:
        store: the store of all data.
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

    def of(self, declaration: Declaration) -> ShardExecutor:
        """See `ShardPlacement`."""
        return LocalShardExecutor(self._store, declaration, self._cache_bytes, self._own_stage)
