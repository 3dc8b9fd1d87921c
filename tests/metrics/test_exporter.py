"""A scrape: both formats, its limit on series, and how often it is made."""

import math
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain

from idlestate.metrics import families
from idlestate.metrics.exporter import Exporter, RegistryBridge
from idlestate.metrics.families import MetricKind, Name
from idlestate.metrics.operator_metrics import SERIES, OperatorMetrics
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.samples import BucketCounts, Samples
from idlestate.metrics.series_cap import SeriesCap
from idlestate.metrics.sidecar_metrics import OF_SIDECAR, WAITING_WRITES, WORKERS
from idlestate.metrics.spark_metrics import OF_SPARK
from idlestate.timers.clock import FakeClock
from tests.patience import PATIENCE_S
from tests.prometheus_programs import programs  # noqa: F401 - a fixture

ODD = 'a"} 1\nodd{b="\\'
AGES = Name("idlestate_ages", MetricKind.GAUGE_HISTOGRAM, "Ages.", buckets=(1.0, 60.0))
PLAIN_AGES = Name("idlestate_of_all", MetricKind.HISTOGRAM, "Of all.", (), buckets=(0.5,))
HELP = Name("idlestate_odd_help", MetricKind.GAUGE, "A \\ and a\nline.", ())
SAMPLES: Samples = {
    families.INPUT_ROWS: {("one",): 3, (ODD,): 4},
    families.RETENTION_TTL: {("one",): math.inf, ("two",): -math.inf, ("three",): math.nan},
    families.KEYS_EXPIRED: {("one", "idle"): 12_345_678_901, ("one", "ttl"): 0.25},
    families.BATCH_DURATION: {
        ("one",): BucketCounts.none(families.BATCH_DURATION).with_value(
            families.BATCH_DURATION, 0.3
        )
    },
    AGES: {("one",): BucketCounts((2, 0, 1), 99.5)},
    HELP: {(): 1},
    PLAIN_AGES: {(): BucketCounts((1, 2), 3.5)},
}


def exporter(samples: Samples = SAMPLES, clock: FakeClock | None = None) -> Exporter:
    made = Exporter(clock or FakeClock())
    made.add(list(samples), lambda _: samples)
    return made


def ours(reply: bytes) -> list[str]:
    return reply.decode().splitlines()


@pytest.mark.parametrize("accept", ["", "text/plain;version=0.0.4", "application/openmetrics-text"])
def test_the_text_says_what_the_client_library_reads_from_a_registry(accept: str) -> None:
    registry, made = CollectorRegistry(), exporter()
    RegistryBridge(registry, made)
    is_openmetrics = accept.startswith("application")
    reply = made.reply(accept)
    read = read_openmetrics if is_openmetrics else read_plain
    write = openmetrics.generate_latest if is_openmetrics else generate_latest

    def shown(text: str) -> list[str]:
        # Plain text has no gauge histograms: the library shows their sums as gauges of their own.
        found = []
        for family in read(text):
            for sample in family.samples:
                name = sample.name.replace("_gcount", "_count").replace("_gsum", "_sum")
                found.append(f"{name} {sorted(sample.labels.items())} {float(sample.value)}")
        return sorted(found)

    assert shown(reply.body.decode()) == shown(write(registry).decode())


def test_a_family_without_samples_is_left_out() -> None:
    text = exporter({families.LIVE_KEYS: {}, families.KEYS_SEEN: {("one",): 1}}).reply("").body
    assert b"live_keys" not in text
    assert b'idlestate_keys_seen{operator="one"} 1\n' in text


def test_a_scrape_is_repeated_for_a_second_in_each_format() -> None:
    clock, asked = FakeClock(), []
    made = Exporter(clock)

    def source(now_ms: int) -> Samples:
        asked.append(now_ms)
        return {families.LIVE_KEYS: {("one",): len(asked)}}

    made.add((families.LIVE_KEYS,), source)
    replies = [made.reply("").body]
    for step_ms in (0, 999, 1):
        clock.advance(step_ms)
        replies.append(made.reply("").body)
    assert asked == [0, 1000]
    assert replies[0] == replies[1] == replies[2] != replies[3]
    made.reply("application/openmetrics-text")
    assert asked == [0, 1000, 1000]


def operators(made: Exporter) -> set[str]:
    return {labels[0] for labels in made.samples().get(families.LIVE_KEYS, {})}


def test_series_are_limited_and_the_same_operators_stay() -> None:
    made = Exporter(FakeClock(), max_series=3 * SERIES)
    uids = ["m", "n", "o", "p"]
    OperatorMetrics(made, lambda _: [OperatorStatistics(operator=uid) for uid in uids])
    assert operators(made) == {"m", "n", "o"}
    uids[:] = ["a", "m", "n", "o", "p"]
    assert operators(made) == {"m", "n", "o"}
    uids[:] = ["a", "m", "o", "p"]
    assert operators(made) == {"m", "o", "a"}


def test_what_a_sidecar_adds_to_operators_is_limited_with_them() -> None:
    made, uids = Exporter(FakeClock(), max_series=SERIES), ["m", "n"]
    OperatorMetrics(made, lambda _: [OperatorStatistics(operator=uid) for uid in uids])
    of_each = {(uid,): 0 for uid in uids}
    made.add((WAITING_WRITES, WORKERS), lambda _: {WAITING_WRITES: of_each, WORKERS: {(): 1}})
    found = made.samples()
    assert found[WAITING_WRITES] == {("m",): 0}
    assert found[WORKERS] == {(): 1}
    assert found[families.OVERFLOWED_SERIES] == {(): SERIES}


def test_what_does_not_fit_is_counted_once() -> None:
    cap = SeriesCap(10)
    assert cap.admitted("operator", ["a", "b"], 6) == {"a"}
    assert cap.admitted("operator", ["a", "b"], 6) == {"a"}
    assert cap.overflowed == 6
    assert cap.admitted("query", ["q"], 4) == {"q"}
    assert cap.admitted("operator", ["b"], 6) == {"b"}
    assert cap.admitted("operator", ["a", "b"], 6) == {"b"}
    assert cap.overflowed == 12


def test_an_operator_has_no_more_series_than_are_reckoned() -> None:
    every = {name: BucketCounts.none(name) for name in families.DURATIONS}
    made = Exporter(FakeClock())
    figures = OperatorStatistics(operator="one", swept_ms=1, compacted_ms=1, durations=every)
    OperatorMetrics(made, lambda _: [figures])
    assert made.reply("").body.count(b'{operator="one"') <= SERIES


def test_promtool_finds_nothing_to_complain_about(
    programs: Path,  # noqa: F811
) -> None:
    def one(name: Name) -> float | BucketCounts:
        return BucketCounts.none(name).with_value(name, 1.0) if name.buckets else 1.0

    every = (*families.ALL, *OF_SIDECAR, *OF_SPARK)
    samples: Samples = {name: {tuple(ODD for _ in name.labels): one(name)} for name in every}
    done = subprocess.run(
        [programs / "promtool", "check", "metrics"],
        input=exporter(samples).reply("").body,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
