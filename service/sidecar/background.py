"""What the sidecar does on its own: settle, sweep, compact, trim, tidy. Each job is short or
budgeted.
"""

import threading
from contextlib import suppress

from idlestate.backends.sidecar.errors import BusyError
from idlestate.backends.sidecar.host import Host
from idlestate.config.sidecar_models import Sidecar
from idlestate.service.sidecar.ticks import Ticks
from idlestate.timers.steady_clock import SteadyClock

_SETTLE_MS = 500
_COMPACT_MS = 5_000
_TRIM_MS = 30_000
_TIDY_MS = 1_000
_SLICES = 5
"""Of a budget: so soon whoever waits for the processor or for a lock gets it."""


class Background:
    """The jobs of one sidecar.

    Attributes:
        behind_ms: how long ago the oldest life ended that the last sweep has left; 0: none.
    """

    def __init__(
        self, host: Host, clock: SteadyClock, settings: Sidecar, stopping: threading.Event
    ) -> None:
        """Nothing is done yet."""
        self._host = host
        self._clock = clock
        self._settings = settings
        self._stopping = stopping
        self.behind_ms = 0

    def plan(self, ticks: Ticks) -> None:
        """Hand the jobs over."""
        ticks.add("settle", _SETTLE_MS, self.settle)
        ticks.add("sweep", self._settings.sweep_every_ms, self.sweep, pool="sweep")
        ticks.add("compact", _COMPACT_MS, self.compact, pool="sweep")
        ticks.add("trim", _TRIM_MS, self.trim)
        ticks.add("tidy", _TIDY_MS, self._host.works.tidy)

    def settle(self) -> None:
        """Look which prepared batches their queries have committed."""
        for operator in self._host:
            with suppress(BusyError):  # a worker is being started again
                operator.batches.settle()

    def sweep(self) -> None:
        """Close what is due, in slices of the budget, until nothing is or somebody stops it."""
        behind_ms = 0
        for operator in self._host:
            if operator.state.is_event_time:
                continue  # its query says how far time got
            slice_ms = max(1, self._settings.budget_ms // _SLICES)
            with suppress(BusyError):
                while not self._stopping.is_set() and not self._clock.is_stepped:
                    now_ms = self._clock.now_ms()
                    if not operator.sweeper.sweep(now_ms, self._clock, slice_ms):
                        break
                    self._stopping.wait(slice_ms / 1000)
            ends_ms = min((shard.next_end_ms for shard in operator.state.shards), default=0)
            behind_ms = max(behind_ms, self._clock.now_ms() - ends_ms)
        self.behind_ms = behind_ms

    def compact(self) -> None:
        """Give back what sweeps closed, a shard at a time."""
        for operator in self._host:
            with suppress(BusyError):
                while not self._stopping.is_set() and operator.sweeper.compact():
                    self._stopping.wait(self._settings.budget_ms / 1000)

    def trim(self) -> None:
        """Remove expired records that nobody needs any more."""
        older_than_ms = self._clock.now_ms() - self._settings.expired_retention_ms
        for operator in self._host:
            operator.trim(older_than_ms)
