"""Writes samples in Prometheus's text format, or in OpenMetrics.

The client library makes several Python objects per sample, which takes a second for a thousand
operators; here a sample is a line. Families without samples are left out.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Final

from idlestate.metrics.names import MetricKind, Name
from idlestate.metrics.samples import BucketCounts, Labels, Samples

PLAIN_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_NOT_FINITE: Final = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
_PAIRS: Final = "\0"


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
    form = _form(name, sums) if name.buckets else ""
    lines = [f"# HELP {called} {_escaped(name.help)}\n# TYPE {called} {kind}\n"]
    for labels, value in samples.items():
        pairs = _labels(name.labels, labels)
        if isinstance(value, BucketCounts):
            lines.append(_buckets(form, pairs, value))
        else:
            lines.append(f"{name.name}{pairs} {_number(value)}\n")
    return "".join(lines)


def _form(name: Name, sums: tuple[str, str]) -> str:
    """The lines of one histogram, with `%` for values and `_PAIRS` for labels."""
    begin, edges = f"{name.name}_bucket{_PAIRS},", (*map(_number, name.buckets), "+Inf")
    lines = [f'{begin}le="{edge}"}} %d\n' for edge in edges]
    return "".join(lines) + "".join(f"{name.name}{end}{_PAIRS}}} %s\n" for end in reversed(sums))


def _buckets(form: str, pairs: str, value: BucketCounts) -> str:
    below = tuple(accumulate(value.counts))
    lines = form % (*below, below[-1], _number(value.sum))
    if not pairs:
        return lines.replace(f"{_PAIRS},", "{").replace(f"{_PAIRS}}}", "")
    return lines.replace(_PAIRS, pairs[:-1])


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
    text = repr(float(value))
    return _NOT_FINITE.get(text, text)
