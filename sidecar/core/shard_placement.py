"""The placement of shards: in the sidecar's own process, or in workers, by ranges."""

from collections.abc import Callable, Sequence
from typing import Protocol

from idlestate.sidecar.core.shard_executor import ShardExecutor
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.transfers import Stage


class ShardPlacement(Protocol):
    """Which executors have which ranges of the shards of all operators."""

    stage: Stage | None
    """Where packets arrive; None if each range has its own stage."""
    places: Sequence[str]
    """The address suffix of each range, relative to the sidecar's address."""

    def of(self, declaration: Declaration) -> ShardExecutor:
        """The executor of an operator."""

    tidy: Callable[[], None]
    """Removes values that no record names any more and whose removal was postponed."""
    bytes_on_disk: Callable[[], int]
    """The bytes that the shards take on disk in addition to the operators' own store."""
