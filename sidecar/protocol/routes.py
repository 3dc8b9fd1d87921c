"""The routes to a sidecar: its own address, and the address of each range of shards."""

from contextlib import closing

from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import AwayError, BusyError
from idlestate.sidecar.protocol.retries import PATIENCE_S
from idlestate.sidecar.protocol.worker_ranges import range_of
from idlestate.timers.clock import Clock


class Routes:
    """Connections to a sidecar and to its ranges; close them.

    Args:
        address: where the sidecar is.
        patience_s: how long calls are retried while it is unavailable or busy.
        clock: measures the time.
        connect_timeout_s: see `Connection`; for the sidecar itself.

    Attributes:
        main: the connection to the sidecar itself.
        places: per range the suffix of the sidecar's own address.
    """

    def __init__(
        self,
        address: Address,
        patience_s: float = PATIENCE_S,
        clock: Clock | None = None,
        connect_timeout_s: float = PATIENCE_S,
    ) -> None:
        self._patience_s = patience_s
        self._clock = clock
        self.main = Connection(address, patience_s, clock, connect_timeout_s=connect_timeout_s)
        self._beside: dict[str, Connection] = {}
        self.places: tuple[str, ...] = ("",)

    def __len__(self) -> int:
        return len(self.places)

    def take(self, places: list[str]) -> None:
        """The current ranges of the sidecar."""
        self.places = tuple(places)

    def ask(self) -> None:
        """Ask the sidecar for its ranges."""
        self.take(self.main.call("ranges").header["places"])

    def have_moved(self) -> bool:
        """Whether the sidecar answers and its ranges have changed, as after a start with another
        number of workers; takes over the new ranges.
        """
        before = self.places
        with closing(Connection(self.main.address, patience_s=0)) as connection:
            try:
                self.take(connection.call("ranges").header["places"])
            except (AwayError, BusyError):
                return False
        return self.places != before

    def to_range(self, at: int) -> Connection:
        """The connection to a range."""
        place = self.places[at]
        if not place:
            return self.main
        if place not in self._beside:
            address = self.main.address.beside(place)
            self._beside[place] = Connection(address, self._patience_s, self._clock)
        return self._beside[place]

    def range_of(self, shard: int, shards: int) -> int:
        """The range of a shard."""
        return range_of(shard, shards, len(self))

    def close(self) -> None:
        """Close the connections."""
        for each in (self.main, *self._beside.values()):
            each.close()
