"""All metrics of a process, requested from their sources at a scrape; `scrape_cache` repeats the
result.
"""

from collections.abc import Callable, Iterator, Sequence
from threading import RLock
from typing import TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from idlestate.metrics import families
from idlestate.metrics.families import MetricKind, Name
from idlestate.metrics.samples import BucketCounts, Samples, merged
from idlestate.metrics.scrape_cache import ScrapeCache
from idlestate.metrics.series_cap import MAX_SERIES, SeriesCap
from idlestate.metrics.text_format import OPENMETRICS_TYPE, PLAIN_TYPE, text_of
from idlestate.metrics.version import VERSION
from idlestate.retention.setting_error import SettingError
from idlestate.timers.clock import Clock
from idlestate.web.http_reply import Reply

Source: TypeAlias = Callable[[int], Samples]
"""The samples at a time of the wall clock (ms)."""


class Exporter:
    """Asks sources for their samples at each scrape; any thread may call it.

    Args:
        clock: the wall clock.
        max_series: the maximum number of series of operators and queries.
    """

    def __init__(self, clock: Clock, *, max_series: int = MAX_SERIES) -> None:
        self.cap = SeriesCap(max_series)
        self.names: list[Name] = []
        self._clock = clock
        self._sources: list[Source] = []
        self._lock = RLock()
        self._cache = ScrapeCache(clock)
        self.add((families.OVERFLOWED_SERIES, families.BUILD_INFO), self._own)

    def add(self, of: Sequence[Name], source: Source) -> None:
        """Export families of a source, which may omit families without samples."""
        self.names += [name for name in of if name not in self.names]
        self._sources.append(source)

    def samples(self) -> Samples:
        """All samples as of now, by family in the order of their names."""
        with self._lock:
            now_ms = self._clock.now_ms()
            # The exporter's own samples come last, because sources are capped during the scrape.
            found = merged(source(now_ms) for source in reversed(self._sources))
            left_out = self.cap.left_out(families.OPERATOR)
        shown = {name: found[name] for name in self.names if found.get(name)}
        return _without(shown, left_out) if left_out else shown

    def reply(self, accept: str) -> Reply:
        """The reply to a scrape: OpenMetrics if the Accept header lists it, otherwise plain
        text.
        """
        openmetrics = "application/openmetrics-text" in accept
        with self._lock:  # of several concurrent scrapes, one does the work, and all get its result
            text = self._cache.text(
                openmetrics=openmetrics,
                write=lambda: text_of(self.samples(), openmetrics=openmetrics),
            )
        return Reply(text, OPENMETRICS_TYPE if openmetrics else PLAIN_TYPE)

    def _own(self, _now_ms: int) -> Samples:
        return {
            families.OVERFLOWED_SERIES: {(): self.cap.overflowed},
            families.BUILD_INFO: {(VERSION,): 1},
        }


def _without(samples: Samples, operators: set[str]) -> Samples:
    """The samples of all other operators, whichever source they are from."""
    return {
        name: {labels: value for labels, value in of.items() if labels[0] not in operators}
        if families.OPERATOR in name.labels
        else of
        for name, of in samples.items()
    }


class RegistryBridge(Collector):
    """Adds an exporter to a registry of the client library.

    Args:
        registry: the registry.
        exporter: what is collected.

    Raises:
        SettingError: the registry already has one of these metrics, or is not a registry.
    """

    def __init__(self, registry: CollectorRegistry, exporter: Exporter) -> None:
        self._exporter = exporter
        try:
            registry.register(self)
        except (ValueError, AttributeError) as error:
            raise SettingError(
                f"registry {registry!r} does not take the metrics ({error}); pass a "
                "CollectorRegistry that does not have them yet"
            ) from error

    def describe(self) -> Iterator[Metric]:
        """The families without samples; the registry rejects names that it already has."""
        return map(_family, self._exporter.names)

    def collect(self) -> Iterator[Metric]:
        """The families with their current samples."""
        for name, samples in self._exporter.samples().items():
            family = _family(name)
            for values, value in samples.items():
                labels = dict(zip(name.labels, values, strict=True))
                if isinstance(value, BucketCounts):
                    _add_buckets(family, name, labels, value)
                else:
                    family.add_sample(name.name, labels, value)
            yield family


def _family(name: Name) -> Metric:
    return Metric(name.name.removesuffix("_total"), name.help, name.kind.value)


def _add_buckets(family: Metric, name: Name, labels: dict[str, str], value: BucketCounts) -> None:
    is_gauge = name.kind is MetricKind.GAUGE_HISTOGRAM
    below = 0
    for edge, count in zip((*map(str, name.buckets), "+Inf"), value.counts, strict=True):
        below += count
        family.add_sample(f"{name.name}_bucket", {**labels, "le": edge}, below)
    family.add_sample(f"{name.name}_{'gcount' if is_gauge else 'count'}", labels, below)
    family.add_sample(f"{name.name}_{'gsum' if is_gauge else 'sum'}", labels, value.sum)
