"""Writes samples in Prometheus's text format, or in OpenMetrics.

The client library makes several Python objects per sample, which takes a second for a thousand
operators. Here the lines of a family are columns: the series, which are known from the last scrape,
and the numbers. Families without samples are left out.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.metrics.families import MetricKind, Name
from idlestate.metrics.samples import BucketCounts, Labels, Samples, Value

PLAIN_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
Floats = npt.NDArray[np.float64]
_NOT_FINITE: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
_KNOWN_FAMILIES: Final = 128
"""More than the number of exported families, so that the series of all are cached between
scrapes.
"""


def text_of(samples: Samples, *, openmetrics: bool = False) -> bytes:
    """All samples as text."""
    parts = [each for name, of in samples.items() if of for each in _family(name, of, openmetrics)]
    return b"".join([*parts, b"# EOF\n" if openmetrics else b""])


def _family(
    name: Name, samples: Mapping[Labels, Value], openmetrics: bool
) -> tuple[bytes, pa.Buffer]:
    called, kind = name.name, name.kind.value
    sums = "_sum", "_count"
    if openmetrics and name.kind is MetricKind.COUNTER:
        called = called.removesuffix("_total")
    if name.kind is MetricKind.GAUGE_HISTOGRAM:
        # Plain text has none: there it is a histogram, whose buckets are read without rate().
        kind, sums = (
            ("gaugehistogram", ("_gsum", "_gcount")) if openmetrics else ("histogram", sums)
        )
    head = f"# HELP {called} {_escaped(name.help)}\n# TYPE {called} {kind}\n"
    numbers = _texts(_numbers(samples.values()))
    lines = pc.binary_join_element_wise(_series(name, sums, tuple(samples)), numbers, "\n", "")
    return head.encode(), lines.buffers()[2]


@lru_cache(maxsize=_KNOWN_FAMILIES)
def _series(name: Name, sums: tuple[str, str], samples: tuple[Labels, ...]) -> pa.StringArray:
    """The beginning of each line, up to its number; a histogram has several lines."""
    ends = [("", "")]
    if name.buckets:
        edges = (*map(_number, name.buckets), "+Inf")
        ends = [("_bucket", f'le="{edge}"') for edge in edges]
        ends += [(end, "") for end in reversed(sums)]
    lines = []
    for values in samples:
        pairs = [
            f'{label}="{_escaped(value).replace(chr(34), chr(92) + chr(34))}"'
            for label, value in zip(name.labels, values, strict=True)
        ]
        for end, edge in ends:
            every = ",".join([*pairs, edge] if edge else pairs)
            lines.append(f"{name.name}{end}{{{every}}} " if every else f"{name.name}{end} ")
    return pa.array(lines, pa.string())


def _numbers(values: Collection[Value]) -> Floats:
    """The numbers of all lines; for a histogram, the cumulative counts of its buckets, the count
    and the sum.
    """
    histograms = [each for each in values if isinstance(each, BucketCounts)]
    if not histograms:
        return np.fromiter(values, np.float64, len(values))
    below = np.array([each.counts for each in histograms], dtype=np.float64).cumsum(axis=1)
    sums = np.array([[each.sum] for each in histograms])
    return np.concatenate([below, below[:, -1:], sums], axis=1).ravel()


def _texts(numbers: Floats) -> pa.StringArray:
    if np.isfinite(numbers).all():
        return pa.array(numbers).cast(pa.string())
    return pa.array(map(_number, numbers.tolist()), pa.string())


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    text = repr(float(value))
    return _NOT_FINITE.get(text, text)
