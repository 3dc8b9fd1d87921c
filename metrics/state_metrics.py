"""Metrics of the keyed state library, for programs without Spark.

A backend belongs to one thread, so a scrape does not call it: its thread notes the figures, and a
scrape shows the newest ones. They have the same names and labels as for other operators. Figures
that the library does not count, such as rows and returning keys, have no series.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final, Protocol, Self, TypeVar

from prometheus_client import CollectorRegistry

from idlestate.metrics import families
from idlestate.metrics.due_times import DueTimes, Times
from idlestate.metrics.exporter import Exporter, RegistryBridge
from idlestate.metrics.exposition import MetricsServer
from idlestate.metrics.families import Name
from idlestate.metrics.samples import Labels, Samples, Value
from idlestate.metrics.step_durations import Durations
from idlestate.retention.policy import TimeDomain
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.setting_error import SettingError
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.timers.clock import Clock, SystemClock
from idlestate.timers.timer_service import TimerService
from idlestate.timers.watermark_clock import WatermarkClock

EXPORTED: Final = (
    families.LIVE_KEYS,
    families.STATE_BYTES,
    families.DISK_BYTES,
    families.KEYS_EXPIRED,
    families.KEYS_DUE,
    families.EXPIRY_LAG,
    families.RETENTION_TTL,
    families.WATERMARK,
    families.SWEPT,
    families.SWEEP_DURATION,
)
_SERIES: Final = 30
"""An upper bound of the series of one operator."""


class UsedBytes(Protocol):
    """Bytes, as in `idlestate.state.Usage`."""

    @property
    def total_bytes(self) -> int:
        """All bytes."""

    @property
    def dead_bytes(self) -> int:
        """Bytes of removed keys."""


class Report(Protocol):
    """The report of a sweep, as `idlestate.state.SweepReport` is."""

    removed: int
    done: bool


_Report_co = TypeVar("_Report_co", bound=Report, covariant=True)


class Backend(Protocol[_Report_co]):
    """The part of a backend of `idlestate.state` that metrics use."""

    kind: str
    watermark: WatermarkClock

    def size(self, name: str) -> int:
        """Keys of a state."""

    def usage(self) -> UsedBytes:
        """Bytes."""

    def expiry_times_ms(self, name: str) -> Times | None:
        """When the values of a state expire."""

    def sweep(self, now_ms: int, budget: int, *, records: bool = False) -> _Report_co:
        """Remove expired values."""


class CountedState(Protocol):
    """The part of a state's descriptor that metrics use."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def ttl(self) -> StateTtlConfig | None:
        """Its time to live, None for none."""


@dataclass(frozen=True, slots=True)
class _Statistics:
    """The newest figures of one operator."""

    keys: int | None = None
    bytes: int = 0
    dead: int | None = None
    ttl_ms: int = 0
    watermark_ms: int = NEVER_MS
    due: tuple[DueTimes, ...] = ()
    expired: int = 0
    swept_ms: int = 0


class StateMetrics:
    """Exports the metrics of keyed state: `/metrics` on a port, or in a registry.

        metrics = StateMetrics(9108)
        report = metrics.sweep("sessions", backend, now_ms, budget=1_000)
        metrics.note("sessions", backend, visits)

    Call `note` and `sweep` from the thread that uses the backend. Any thread may scrape.

    Args:
        port: serves the metrics on this port; 0 selects a free one.
        address: the address to listen on; the default answers this machine only.
        registry: adds the metrics to this registry of `prometheus_client`.
        clock: default: the system's.

    Attributes:
        url: where the metrics are served; None if only a registry has them.

    Raises:
        RefusedError: the address cannot be listened on.
        SettingError: there is neither a port nor a registry, or the registry already has these
            metrics.
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        address: str = "127.0.0.1",
        registry: CollectorRegistry | None = None,
        clock: Clock | None = None,
    ) -> None:
        if port is None and registry is None:
            raise SettingError(
                "StateMetrics needs a port or a registry; pass port=9108, for example"
            )
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._known: dict[str, _Statistics] = {}
        self._durations = Durations(families.SWEEP_DURATION)
        exporter = Exporter(self._clock)
        self._cap = exporter.cap
        exporter.add(EXPORTED, self._samples)
        self.url: str | None = None
        with ExitStack() as ends:
            if registry is not None:
                bridge = RegistryBridge(registry, exporter)
                ends.callback(registry.unregister, bridge)
            if port is not None:
                self.url = ends.enter_context(MetricsServer(exporter, port, address)).url
            self._ends = ends.pop_all()

    def note(
        self,
        uid: str,
        backend: Backend[Any],
        state: CountedState,
        timers: TimerService | None = None,
    ) -> None:
        """Show the current figures of a backend.

        Due keys and the expiry lag then follow the clock, based on the noted times. The call
        reads the timestamps of the state and the times of the timers; in RocksDB and in runs it
        walks all keys of the state. So call it after a round of sweeps rather than after each
        batch.

        Args:
            uid: the label `operator`; a constant of the program, never a key.
            backend: the backend.
            state: the descriptor of the state whose keys are counted. If it has a time to live, its
                values count for due keys and for the expiry lag.
            timers: timers that end keys, such as those of `IdleRetention`; they count alike.
        """
        used, watermark_ms = backend.usage(), backend.watermark.now_ms()
        ends_ms, due = backend.expiry_times_ms(state.name), list[DueTimes]()
        if ends_ms is not None:
            is_event = state.ttl is not None and state.ttl.time is TimeDomain.EVENT
            due.append(DueTimes.of(ends_ms, watermark_ms if is_event else None))
        if timers is not None:
            watermark_ms = max(watermark_ms, timers.current_watermark_ms)
            due.append(DueTimes.of(timers.times_ms(TimeDomain.PROCESSING), None))
            due.append(DueTimes.of(timers.times_ms(TimeDomain.EVENT), watermark_ms))
        now = replace(
            self._known.get(uid, _Statistics()),
            keys=backend.size(state.name),
            bytes=max(used.total_bytes - used.dead_bytes, 0),
            dead=None if backend.kind == "heap" else used.dead_bytes,
            ttl_ms=0 if state.ttl is None else state.ttl.ttl_ms,
            watermark_ms=watermark_ms,
            due=tuple(due),
        )
        self._show(uid, now)

    def sweep(
        self,
        uid: str,
        backend: Backend[_Report_co],
        now_ms: int,
        budget: int,
        *,
        records: bool = False,
    ) -> _Report_co:
        """Call `backend.sweep`, count what it removed, and measure how long it took.

        Args:
            uid: as for `note`.
            backend: the backend.
            now_ms, budget, records: as for `backend.sweep`.
        """
        began_s = self._clock.monotonic_s()
        report = backend.sweep(now_ms, budget, records=records)
        self._durations.observe(families.SWEEP_DURATION, uid, self._clock.monotonic_s() - began_s)
        before = self._known.get(uid, _Statistics())
        now = replace(before, expired=before.expired + report.removed)
        self._show(uid, replace(now, swept_ms=self._clock.now_ms()) if report.done else now)
        return report

    def stop(self) -> None:
        """Serve no more; a second call does nothing."""
        self._ends.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _show(self, uid: str, figures: _Statistics) -> None:
        with self._lock:
            self._known[uid] = figures

    def _samples(self, now_ms: int) -> Samples:
        with self._lock:
            every = dict(self._known)
        shown = self._cap.admitted(families.OPERATOR, every, _SERIES)
        found: dict[Name, dict[Labels, Value]] = {name: {} for name in EXPORTED}
        for uid in sorted(shown):
            self._add(found, uid, every[uid], now_ms)
        return found

    def _add(
        self, found: dict[Name, dict[Labels, Value]], uid: str, of: _Statistics, now_ms: int
    ) -> None:
        one = (uid,)
        found[families.KEYS_EXPIRED][uid, "ttl"] = of.expired
        found[families.SWEPT][one] = of.swept_ms / 1000
        found[families.SWEEP_DURATION][one] = self._durations.of(uid)[families.SWEEP_DURATION]
        if of.keys is None:
            return
        found[families.LIVE_KEYS][one] = of.keys
        found[families.STATE_BYTES][one] = of.bytes
        found[families.RETENTION_TTL][one] = of.ttl_ms / 1000
        if of.dead is not None:
            found[families.DISK_BYTES] |= {(uid, "state"): of.bytes, (uid, "dead"): of.dead}
        if of.due:
            found[families.EXPIRY_LAG][one] = max(each.lag_ms(now_ms) for each in of.due) / 1000
            for within, span_ms in families.DUE_WITHIN_MS.items():
                count = sum(each.count(now_ms, span_ms) for each in of.due)
                found[families.KEYS_DUE][uid, within] = count
        if of.watermark_ms != NEVER_MS:
            found[families.WATERMARK][one] = max(of.watermark_ms, 0) / 1000
