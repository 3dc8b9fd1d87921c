"""The placement of the tables of all operators on workers, by range of shards."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from idlestate.sidecar.core.shard_executor import ShardExecutor
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.retries import PATIENCE_S, patiently
from idlestate.sidecar.protocol.transfers import Stage
from idlestate.sidecar.protocol.worker_ranges import range_of, shard_of
from idlestate.sidecar.workers.remote_shard_executor import Link, RemoteShardExecutor
from idlestate.timers.clock import SystemClock

_CALLS_AT_ONCE = 8


class WorkerPlacement:
    """`ShardPlacement` over links to workers.

    Args:
        links: the links to the workers, by range.
        places: the address suffix of each range's worker, relative to the sidecar's own address.
        tidy: makes the links do postponed removals.
        bytes_on_disk: asks the workers for the size of their stores.
    """

    def __init__(
        self,
        links: Sequence[Link],
        places: Sequence[str],
        tidy: Callable[[], None],
        bytes_on_disk: Callable[[], int],
    ) -> None:
        self.stage: Stage | None = None
        self.places: Sequence[str] = places
        self.tidy = tidy
        self.bytes_on_disk = bytes_on_disk
        self._links = links
        self._pool = ThreadPoolExecutor(_CALLS_AT_ONCE * len(links), "idlestate-worker")

    def of(self, declaration: Declaration) -> ShardExecutor:
        """See `ShardPlacement`."""
        return RemoteShardExecutor(declaration, self._links, self._pool)

    def keep(self, named: Iterable[tuple[str, int]]) -> None:
        """Have workers remove all values except these; call it before anything else.

        Args:
            named: keys of values, each with the number of shards of its operator.
        """
        by_range: list[list[str]] = [[] for _ in self._links]
        for key, shards in named:
            by_range[range_of(shard_of(key), shards, len(self._links))].append(key)
        for link, keys in zip(self._links, by_range, strict=True):
            # Not in the header: its size is limited, the number of keys is not.
            text = "\n".join(keys).encode()
            keep = partial(link.call, "keep", {}, text)
            patiently(keep, lambda: PATIENCE_S, SystemClock())  # a worker that dies is restarted

    def close(self) -> None:
        """Stop making calls."""
        self._pool.shutdown()
