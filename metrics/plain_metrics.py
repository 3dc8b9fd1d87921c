"""Collects metrics of which each scrape asks somebody for all samples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from idlestate.metrics.names import MetricKind, Name

Samples: TypeAlias = Mapping[Name, Mapping[tuple[str, ...], float]]
"""Per family the samples, by the values of its labels."""


class PlainMetrics(Collector):
    """Collects counters and gauges.

    Args:
        registry: where to register; not the client library's global one.
        names: the families.
        read: called once per scrape; its answer has every family of `names`.

    Raises:
        ValueError: the registry already has one of these metrics.
    """

    def __init__(
        self, registry: CollectorRegistry, names: Sequence[Name], read: Callable[[], Samples]
    ) -> None:
        self._names = names
        self._read = read
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """The families without samples; the registry rejects names that it already has."""
        return described(self._names)

    def collect(self) -> Iterator[Metric]:
        """The families with their current samples."""
        samples = self._read()
        for name in self._names:
            found = family(name)
            for labels, value in samples[name].items():
                found.add_metric(labels, value)
            yield found


def described(names: Sequence[Name]) -> Iterator[Metric]:
    """Families without samples."""
    for name in names:
        yield Metric(name.name.removesuffix("_total"), name.help, name.kind.value)


def family(name: Name) -> CounterMetricFamily | GaugeMetricFamily:
    """The empty family of a counter or a gauge."""
    make = CounterMetricFamily if name.kind is MetricKind.COUNTER else GaugeMetricFamily
    return make(name.name, name.help, labels=name.labels)
