"""Writes samples in Prometheus's text format, or in OpenMetrics.

The client library makes several Python objects per sample, which takes a second for a thousand
operators; here a sample is a line. Families without samples are left out.
"""

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from idlestate.metrics.names import MetricKind, Name
from idlestate.metrics.samples import BucketCounts, Labels, Samples

PLAIN_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def text_of(samples: Samples, *, openmetrics: bool = False) -> bytes:
    """All samples as text."""
    families = [_family(name, of, openmetrics) for name, of in samples.items() if of]
    return "".join([*families, "# EOF\n" if openmetrics else ""]).encode()


def _family(name: Name, samples: Mapping[Labels, float | BucketCounts], openmetrics: bool) -> str:
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
    lines: list[str] = []
    for labels, value in samples.items():
        if isinstance(value, BucketCounts):
            lines += _buckets(name, labels, value, sums)
        else:
            lines.append(f"{name.name}{_labels(name.labels, labels)} {_number(value)}\n")
    return head + "".join(lines)


def _buckets(
    name: Name, labels: Labels, value: BucketCounts, sums: tuple[str, str]
) -> Iterator[str]:
    pairs = _labels(name.labels, labels)
    begin = f'{name.name}_bucket{pairs[:-1] + "," if pairs else "{"}le="'
    below = 0
    for edge, count in zip((*map(_number, name.buckets), "+Inf"), value.counts, strict=True):
        below += count
        yield f'{begin}{edge}"}} {below}\n'
    yield f"{name.name}{sums[1]}{pairs} {below}\n"
    yield f"{name.name}{sums[0]}{pairs} {_number(value.sum)}\n"


@lru_cache(maxsize=1 << 16)
def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = (
        f'{name}="{_escaped(value).replace(chr(34), chr(92) + chr(34))}"'
        for name, value in zip(names, values, strict=True)
    )
    return f"{{{','.join(pairs)}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
