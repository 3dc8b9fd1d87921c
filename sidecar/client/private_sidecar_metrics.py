"""Metrics of the driver's own sidecars, which have no port to scrape."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from idlestate.metrics import families
from idlestate.metrics.exporter import Exporter
from idlestate.metrics.families import Name
from idlestate.metrics.samples import Labels, Samples, Value, from_json
from idlestate.metrics.sidecar_metrics import CLOCK_DIVERGENCE, CLOCK_STEPPED, OF_SIDECAR
from idlestate.sidecar.client.private_sidecar import running_sidecars
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import SidecarError
from idlestate.timers.clock import Clock

PATIENCE_S: Final = 0.5
"""How long a scrape waits for all of them."""
SHOWN: Final = (
    *families.OF_OPERATOR,
    *(each for each in OF_SIDECAR if each not in families.OF_RELOADS),
)
_HIGHEST: Final = (CLOCK_DIVERGENCE, CLOCK_STEPPED)
"""Process metrics whose maximum is exported; others are summed."""


class PrivateSidecarMetrics:
    """Exports the metrics of the driver's sidecars, which it asks at each scrape.

    A sidecar that does not answer is left out: the last reports of its operators to the driver are
    exported instead.

    Args:
        exporter: exports them; metrics that are added later do not replace those of sidecars.
        clock: measures the timeout.
        places: returns the addresses of the running sidecars.
    """

    def __init__(
        self,
        exporter: Exporter,
        clock: Clock,
        places: Callable[[], Sequence[Address]] = running_sidecars,
    ) -> None:
        self._clock = clock
        self._places = places
        exporter.add(SHOWN, self._samples)

    def next_ends_ms(self) -> dict[str, int]:
        """By operator, when its next open life ends or has ended; `FOREVER_MS` if none does."""
        return {
            uid: end_ms
            for answer in self._answers("next_ends")
            for uid, end_ms in answer["next_ends_ms"].items()
        }

    def _samples(self, _now_ms: int) -> Samples:
        return _together([from_json(each["samples"], SHOWN) for each in self._answers("metrics")])

    def _answers(self, call: str) -> Iterator[dict[str, Any]]:
        """What the sidecars answer to a call."""
        ends_s = self._clock.monotonic_s() + PATIENCE_S
        for address in self._places():
            left_s = ends_s - self._clock.monotonic_s()
            if left_s <= 0:
                break
            try:
                yield _asked(address, call, left_s)
            except SidecarError:
                continue  # it is being restarted, or hangs


def _asked(address: Address, call: str, timeout_s: float) -> dict[str, Any]:
    with closing(Connection(address, patience_s=0, timeout_s=timeout_s)) as connection:
        return connection.call(call).header


def _together(answers: Sequence[Samples]) -> Samples:
    found: dict[Name, dict[Labels, Value]] = {}
    for answer in answers:
        for name, samples in answer.items():
            of = found.setdefault(name, {})
            for labels, value in samples.items():
                of[labels] = _both(name, of[labels], value) if labels in of else value
    return found


def _both(name: Name, one: Value, other: Value) -> Value:
    """Merge series that several sidecars have; these are figures of their processes, never
    histograms.
    """
    assert isinstance(one, int | float)
    assert isinstance(other, int | float)
    return max(one, other) if name in _HIGHEST else one + other
