"""A sidecar in numbers, as of now."""

from idlestate.metrics import names
from idlestate.metrics import sidecar_metrics as own
from idlestate.metrics.names import Name
from idlestate.metrics.sidecar_metrics import SidecarFacts
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.server.job_schedule import Ticks
from idlestate.sidecar.server.sweep_lag import Overdue
from idlestate.sidecar.workers.worker_supervisor import Workers
from idlestate.timers.steady_clock import SteadyClock


class Facts:
    """Gathers what `/metrics` shows."""

    def __init__(
        self,
        host: Host,
        clock: SteadyClock,
        calls: Calls,
        ticks: Ticks,
        workers: Workers | None,
    ) -> None:
        """Nothing is asked yet."""
        self._host = host
        self._clock = clock
        self._calls = calls
        self._ticks = ticks
        self._overdue = Overdue(host, clock)
        self._workers = workers
        self._reloads = dict.fromkeys(names.RELOAD_RESULTS, 0.0)
        self._reload_good = False
        self._reload_ms = 0

    def count_reload(self, *, good: bool) -> None:
        """Count that the configuration was read, and whether it was taken."""
        self._reloads["success" if good else "failure"] += 1
        self._reload_good = good
        if good:
            self._reload_ms = self._clock.now_ms()

    def now(self) -> SidecarFacts:
        """All of it."""
        operators = list(self._host)
        figures = {each.state.uid: _total(each) for each in operators}
        return SidecarFacts(
            process={
                own.STORE_BYTES: self._host.store.bytes_on_disk()
                + self._host.works.bytes_on_disk(),
                own.WORKERS: self._workers.up if self._workers else 1,
                own.WORKER_RESTARTS: self._workers.restarts if self._workers else 0,
                own.EXCHANGES: len(self._calls.exchanges),
                own.SWEEP_BEHIND: self._overdue.behind_ms() / 1000,
                own.CLOCK_DIVERGENCE: self._clock.divergence_ms / 1000,
                own.CLOCK_STEPPED: float(self._clock.is_stepped),
                names.CONFIG_RELOAD_GOOD: float(self._reload_good),
                names.CONFIG_RELOAD_TIME: self._reload_ms / 1000,
            },
            by_result={
                own.TROUBLES: dict(self._ticks.troubles),
                names.CONFIG_RELOADS: self._reloads,
            },
            operators={each.state.uid: _of(each, figures[each.state.uid]) for each in operators},
            expired={
                uid: {reason: total[f"expired_{reason}"] for reason in names.EXPIRY_REASONS}
                for uid, total in figures.items()
            },
        )


def _total(operator: Operator) -> dict[str, int]:
    total: dict[str, int] = {}
    _, figures = operator.figures()
    for shard in figures.values():
        for name, number in shard.items():
            total[name] = total.get(name, 0) + number
    return total


def _of(operator: Operator, total: dict[str, int]) -> dict[Name, float]:
    sizes = operator.sizes()
    return {
        names.LIVE_KEYS: sizes.live_keys,
        names.STATE_BYTES: sizes.state_bytes,
        names.REMEMBERED_KEYS: total["remembered_keys"],
        names.REMEMBERED_BYTES: total["remembered_bytes"],
        names.KEYS_SEEN: total["keys_ever_seen"],
        names.KEYS_CREATED: total["created"],
        names.RETURNING_KEYS: total["returning_keys"],
        own.COMMITTED_BATCH: sizes.batch_id,
        own.EXPIRED_KEPT: sizes.expired_kept,
        own.EXPIRED_NUMBERED: sizes.next_seq,
        own.WAITING_WRITES: sizes.waiting,
        own.QUARANTINED: sizes.quarantined,
        own.DUPLICATES: operator.writes.duplicates,
        own.FORGOTTEN_CONSUMERS: operator.forgotten_consumers,
        own.STOPPED: float(operator.record.stopped is not None),
    }
