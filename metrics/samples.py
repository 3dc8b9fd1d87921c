"""Samples: the form of metrics between their sources and the text format."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from idlestate.metrics.families import Name


@dataclass(frozen=True, slots=True)
class BucketCounts:
    """Counts of values in the buckets of a `Name` and in an additional one for higher values, and
    the sum of the values.
    """

    counts: tuple[int, ...]
    sum: float = 0.0

    @classmethod
    def none(cls, name: Name) -> "BucketCounts":
        """No values."""
        return cls((0,) * (len(name.buckets) + 1))

    def with_value(self, name: Name, value: float) -> "BucketCounts":
        """The counts with one more value; a bucket includes its upper bound."""
        counts = list(self.counts)
        counts[bisect_left(name.buckets, value)] += 1
        return BucketCounts(tuple(counts), self.sum + value)


Labels: TypeAlias = tuple[str, ...]
"""The values of a family's labels, in the order of its names."""
Value: TypeAlias = float | BucketCounts
Samples: TypeAlias = Mapping[Name, Mapping[Labels, Value]]
"""Families with their samples; histograms have `BucketCounts`."""


def merged(parts: Iterable[Samples]) -> Samples:
    """All samples, by family; the last sample of a series wins."""
    every: dict[Name, Mapping[Labels, Value]] = {}
    for part in parts:
        for name, samples in part.items():
            every[name] = {**every[name], **samples} if every.get(name) else samples
    return every


def to_json(samples: Samples) -> dict[str, list[list[Any]]]:
    """Samples as values that `json` writes: by family, pairs of labels and a value."""
    return {
        name.name: [
            [list(labels), [value.counts, value.sum] if isinstance(value, BucketCounts) else value]
            for labels, value in of.items()
        ]
        for name, of in samples.items()
    }


def from_json(facts: Mapping[str, Sequence[Sequence[Any]]], names: Iterable[Name]) -> Samples:
    """Samples as `to_json` wrote them, without families that are not listed."""
    return {
        name: {
            tuple(labels): BucketCounts(tuple(value[0]), value[1])
            if isinstance(value, list)
            else value
            for labels, value in facts[name.name]
        }
        for name in names
        if name.name in facts
    }
