"""What a scrape shows of the figures that a driver hands over."""

import math

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from idlestate.metrics import families
from idlestate.metrics.driver_metrics import DriverMetrics
from idlestate.metrics.exporter import Exporter, RegistryBridge
from idlestate.metrics.operator_metrics import samples_of
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.samples import BucketCounts
from idlestate.metrics.version import VERSION
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain
from idlestate.retention.time_bins import KeyTimes, TimeBins
from idlestate.timers.clock import FakeClock

UID = "clicks-by-session"
NOW_MS = 1_741_000_100_000
FIGURES = OperatorStatistics(
    operator=UID,
    batch_id=7,
    batches=8,
    batch_time_ms=1_741_000_000_500,
    watermark_ms=1_740_990_000_250,
    reached_ms=1_740_990_030_000,
    next_end_ms=1_740_990_010_000,
    input_rows=1_000,
    late_rows=6,
    rejected_rows={
        "null_time": 1,
        "too_old": 2,
        "too_far_ahead": 3,
        "malformed": 4,
        "null_key": 5,
        "function_error": 6,
    },
    live_keys=50,
    state_bytes=4_096,
    remembered_keys=20,
    remembered_bytes=320,
    held_rows=30,
    keys_seen=110,
    keys_created=120,
    keys_expired={"idle": 60, "ttl": 7, "lifetime": 3},
    returning_keys=10,
    absences=BucketCounts((4, 0, 0, 5, *[0] * 7, 1), 3_000_000.5),
    ends=KeyTimes(
        [
            TimeBins([1_740_990_009_999], [4]),  # before the first open life: closed by now
            TimeBins([1_740_990_010_000, 1_740_993_630_000, 1_740_993_630_001], [3, 2, 1]),
        ]
    ),
    accesses=KeyTimes([TimeBins([1_740_989_970_000, 1_740_990_029_999], [1, 5])]),
    disk_bytes={"state": 3_000, "remembered": 320, "expired_log": 700, "dead": 1_000},
    policy=Policy(idle_min_ms=1_800_000, idle_max_ms=2_700_000, ttl_ms=500),
)


def metrics(*operators: str) -> tuple[CollectorRegistry, DriverMetrics]:
    """The metrics of a driver, as a registry of the client library shows them."""
    registry = CollectorRegistry()
    exporter = Exporter(FakeClock(NOW_MS))
    made = DriverMetrics(exporter)
    for uid in operators or (UID,):
        made.show(OperatorStatistics(operator=uid))
    RegistryBridge(registry, exporter)
    return registry, made


def series(registry: CollectorRegistry) -> dict[str, float]:
    """Every series of a scrape, by its name and its sorted labels."""
    text = generate_latest(registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[_with_labels(sample.name, sample.labels)] = sample.value
    return found


def of(name: str, **more: str) -> str:
    return _with_labels(f"idlestate_{name}", {"operator": UID, **more})


def _with_labels(name: str, labels: dict[str, str]) -> str:
    pairs = (f'{label}="{labels[label]}"' for label in sorted(labels))
    return f"{name}{{{','.join(pairs)}}}"


def test_before_the_first_operator_there_are_families_without_series() -> None:
    assert not any(samples_of([], NOW_MS).values())


def test_a_scrape_shows_the_figures() -> None:
    registry, pipeline = metrics()
    pipeline.show(FIGURES)
    shown = series(registry)
    wanted = {
        of("input_rows_total"): 1_000,
        of("late_rows_total"): 6,
        of("rejected_rows_total", reason="null_time"): 1,
        of("rejected_rows_total", reason="too_old"): 2,
        of("rejected_rows_total", reason="too_far_ahead"): 3,
        of("rejected_rows_total", reason="malformed"): 4,
        of("rejected_rows_total", reason="null_key"): 5,
        of("rejected_rows_total", reason="function_error"): 6,
        of("live_keys"): 50,
        of("state_bytes"): 4_096,
        of("remembered_keys"): 20,
        of("remembered_bytes"): 320,
        of("held_rows"): 30,
        of("keys_seen"): 110,
        of("keys_created_total"): 120,
        of("keys_expired_total", reason="idle"): 60,
        of("keys_expired_total", reason="ttl"): 7,
        of("keys_expired_total", reason="lifetime"): 3,
        of("returning_keys_total"): 10,
        of("returning_key_absence_seconds_bucket", le="60.0"): 4,
        of("returning_key_absence_seconds_bucket", le="3600.0"): 9,
        of("returning_key_absence_seconds_bucket", le="2592000.0"): 9,
        of("returning_key_absence_seconds_bucket", le="+Inf"): 10,
        of("returning_key_absence_seconds_count"): 10,
        of("returning_key_absence_seconds_sum"): 3_000_000.5,
        of("keys_due", within="1h"): 5,
        of("keys_due", within="24h"): 6,
        of("forecast_live_keys_floor", horizon="1h"): 1,
        of("forecast_live_keys_floor", horizon="24h"): 0,
        of("idle_age_seconds_bucket", le="60.0"): 6,
        of("idle_age_seconds_bucket", le="+Inf"): 6,
        of("disk_bytes", part="state"): 3_000,
        of("disk_bytes", part="remembered"): 320,
        of("disk_bytes", part="expired_log"): 700,
        of("disk_bytes", part="dead"): 1_000,
        of("watermark_timestamp_seconds"): 1_740_990_000.25,
        of("last_batch_timestamp_seconds"): 1_741_000_000.5,
        of("batches_total"): 8,
        of("expiry_lag_seconds"): 20,
        of("retention_min_seconds"): 1_800,
        of("retention_max_seconds"): 2_700,
        of("retention_ttl_seconds"): 0.5,
        of("retention_max_lifetime_seconds"): 0,
        of("policy_version"): 1,
        of("sweep_last_success_timestamp_seconds"): 1_741_000_000.5,
        "idlestate_dropped_figures_total{}": 0,
        "idlestate_overflowed_series_total{}": 0,
        f'idlestate_build_info{{version="{VERSION}"}}': 1,
    }
    assert {name: shown[name] for name in wanted} == wanted
    rest = set(shown) - set(wanted)
    histograms = ("batch_duration", "returning_key_absence", "idle_age")
    assert all(name.startswith(tuple(f"idlestate_{each}_" for each in histograms)) for name in rest)


def test_before_the_first_batch_every_series_is_there_at_zero() -> None:
    registry, pipeline = metrics()
    before = series(registry)
    assert {
        value
        for name, value in before.items()
        if not name.startswith(("idlestate_build_info", "idlestate_policy_version"))
    } == {0}
    pipeline.show(FIGURES)
    pipeline.durations.observe(families.BATCH_DURATION, UID, 1.0)
    assert set(series(registry)) == set(before)


def test_the_global_registry_is_left_alone() -> None:
    metrics()
    assert not any(family.name.startswith("idlestate") for family in REGISTRY.collect())


def test_two_of_them_do_not_fit_into_one_registry() -> None:
    registry, _ = metrics()
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        RegistryBridge(registry, Exporter(FakeClock()))


def test_operators_have_their_own_series() -> None:
    registry, pipeline = metrics(UID, "edits-by-user")
    pipeline.show(FIGURES)
    shown = series(registry)
    assert shown[of("live_keys")] == 50
    assert shown['idlestate_live_keys{operator="edits-by-user"}'] == 0


def test_a_reason_that_is_not_on_the_list_is_shown_as_other() -> None:
    registry, pipeline = metrics()
    pipeline.show(
        OperatorStatistics(operator=UID, keys_expired={"idle": 1, "boredom": 2, "ire": 3})
    )
    shown = series(registry)
    assert shown[of("keys_expired_total", reason="idle")] == 1
    assert shown[of("keys_expired_total", reason="__other__")] == 5
    assert "boredom" not in generate_latest(registry).decode()


def test_spans_that_never_end_are_infinite_and_a_rule_that_is_off_is_zero() -> None:
    registry, pipeline = metrics()
    off = Policy(idle_min_ms=1, idle_max_ms=5_000, ttl_ms=FOREVER_MS)
    pipeline.show(OperatorStatistics(operator=UID, policy=off))
    shown = series(registry)
    assert shown[of("retention_ttl_seconds")] == math.inf
    assert shown[of("retention_min_seconds")] == 0
    assert shown[of("retention_max_seconds")] == 0


@pytest.mark.parametrize("time", TimeDomain)
@pytest.mark.parametrize(("past_ms", "lag_s"), [(-1, 0), (0, 0), (1, 0.001), (90_000, 90)])
def test_the_expiry_lag_is_that_of_the_moment_of_the_scrape(
    time: TimeDomain, past_ms: int, lag_s: float
) -> None:
    """By the wall clock, or in event time by the watermark that the next batch will have."""
    registry, pipeline = metrics()
    of_operator = OperatorStatistics(
        operator=UID,
        policy=Policy(ttl="1h", time=time),
        watermark_ms=5_000 if time is TimeDomain.EVENT else None,
        reached_ms=10_000 if time is TimeDomain.EVENT else 0,
        next_end_ms=(10_000 if time is TimeDomain.EVENT else NOW_MS) - past_ms,
    )
    pipeline.show(of_operator)
    assert series(registry)[of("expiry_lag_seconds")] == lag_s


def test_an_operator_without_any_rule_has_no_retention() -> None:
    registry, pipeline = metrics()
    pipeline.show(OperatorStatistics(operator=UID, live_keys=3))
    shown = series(registry)
    spans = ("min", "max", "ttl", "max_lifetime")
    assert {shown[of(f"retention_{span}_seconds")] for span in spans} == {0}


def test_a_watermark_before_1970_is_shown_as_none() -> None:
    registry, pipeline = metrics()
    pipeline.show(OperatorStatistics(operator=UID, watermark_ms=-1))
    assert series(registry)[of("watermark_timestamp_seconds")] == 0


@pytest.mark.parametrize(
    ("seconds", "first_bucket"),
    [(0.0, "0.1"), (0.1, "0.1"), (0.1001, "0.25"), (900.0, "900.0"), (901.0, "+Inf")],
)
def test_a_duration_falls_into_the_bucket_that_reaches_it(
    seconds: float, first_bucket: str
) -> None:
    registry, pipeline = metrics()
    pipeline.durations.observe(families.BATCH_DURATION, UID, seconds)
    shown = series(registry)
    edges = [*map(str, families.BATCH_BUCKETS_S), "+Inf"]
    reached = [e for e in edges if shown[of("batch_duration_seconds_bucket", le=e)] == 1]
    assert reached == edges[edges.index(first_bucket) :]
    assert shown[of("batch_duration_seconds_count")] == 1
    assert shown[of("batch_duration_seconds_sum")] == seconds


def test_durations_add_up() -> None:
    registry, pipeline = metrics()
    for seconds in (0.2, 0.7, 40.0):
        pipeline.durations.observe(families.BATCH_DURATION, UID, seconds)
    shown = series(registry)
    assert shown[of("batch_duration_seconds_count")] == 3
    assert shown[of("batch_duration_seconds_sum")] == pytest.approx(40.9)
    assert shown[of("batch_duration_seconds_bucket", le="1.0")] == 2


def test_label_values_cannot_break_out_of_their_quotes() -> None:
    evil = 'a"} 1\nevil{b="\\'
    registry, _ = metrics(evil)
    text = generate_latest(registry).decode()
    assert not any(line.startswith("evil") for line in text.split("\n"))
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels.get("operator", evil) == evil
