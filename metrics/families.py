"""Names, labels, help texts and buckets of all exported metrics.

Dashboards and alerts depend on them: renaming one is a breaking change. State keys, users and files
are never labels. The only labels are `operator` (from the configuration), `reason`, `result`,
`within` and `part` (from the lists below), `input` (one of two names), and `version`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from idlestate.retention.age_buckets import AGE_BUCKETS_MS

PREFIX: Final = "idlestate_"

OPERATOR: Final = "operator"
REASON: Final = "reason"
RESULT: Final = "result"
WITHIN: Final = "within"
PART: Final = "part"
INPUT: Final = "input"

BUDGET: Final = "budget"
HORIZON: Final = "horizon"
BOUND: Final = "bound"

OTHER: Final = "__other__"
"""The label value for every value that is not on the label's list."""

REJECT_REASONS: Final = (
    "null_time",
    "too_old",
    "too_far_ahead",
    "malformed",
    "null_key",
    "function_error",
)
EXPIRY_REASONS: Final = ("idle", "ttl", "lifetime")
DUE_WITHIN_MS: Final = {"1h": 3_600_000, "24h": 86_400_000}
DISK_PARTS: Final = ("state", "remembered", "expired_log", "dead")
RELOAD_RESULTS: Final = ("success", "failure")

STEP_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""From a look-up in memory to an exchange of a large batch."""
BATCH_BUCKETS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
"""From a batch of a few rows to one that works off a backlog of hours."""


AGE_BUCKETS_S: Final = tuple(ms / 1000 for ms in AGE_BUCKETS_MS)


class MetricKind(StrEnum):
    """The Prometheus type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    GAUGE_HISTOGRAM = "gaugehistogram"


@dataclass(frozen=True, slots=True, eq=False)  # each is one of its kind, and a key of many dicts
class Name:
    """One metric family."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = (OPERATOR,)
    buckets: tuple[float, ...] = ()
    """For a histogram, ascending, in seconds; the last bucket, for all higher values, is not
    listed.
    """


def _counter(name: str, text: str, *more_labels: str) -> Name:
    return Name(f"{PREFIX}{name}_total", MetricKind.COUNTER, text, (OPERATOR, *more_labels))


def _gauge(name: str, text: str, *more_labels: str) -> Name:
    return Name(PREFIX + name, MetricKind.GAUGE, text, (OPERATOR, *more_labels))


def _steps(name: str, text: str) -> Name:
    return Name(PREFIX + name, MetricKind.HISTOGRAM, text, buckets=STEP_BUCKETS_S)


INPUT_ROWS: Final = _counter("input_rows", "Rows read, including late and rejected rows.")
LATE_ROWS: Final = _counter(
    "late_rows", "Late rows: rows at or behind the watermark; they change no state."
)
REJECTED_ROWS: Final = _counter(
    "rejected_rows",
    "Rows rejected as invalid, by reason; they do not advance the watermark.",
    REASON,
)
ROWS_BY_INPUT: Final = _counter(
    "rows_by_input", "Rows read of each input; only of operators with two inputs.", INPUT
)
LATE_BY_INPUT: Final = _counter(
    "late_rows_by_input", "Late rows of each input; only of operators with two inputs.", INPUT
)
REJECTED_BY_INPUT: Final = _counter(
    "rejected_rows_by_input",
    "Rejected rows of each input, for any reason; only of operators with two inputs.",
    INPUT,
)
LIVE_KEYS: Final = _gauge("live_keys", "Keys in state after the newest batch.")
STATE_BYTES: Final = _gauge("state_bytes", "Size of the state in bytes after the newest batch.")
REMEMBERED_KEYS: Final = _gauge(
    "remembered_keys", "Expired keys remembered in order to count returning keys."
)
REMEMBERED_BYTES: Final = _gauge(
    "remembered_bytes", "Size in bytes of the remembered keys; not included in state_bytes."
)
HELD_ROWS: Final = _gauge(
    "held_rows",
    "Rows that wait until the watermark reaches them; 0 for operators whose rows do not wait.",
)
KEYS_SEEN: Final = _gauge(
    "keys_seen", "Estimated number of distinct keys ever seen: the keys in state without retention."
)
KEYS_CREATED: Final = _counter("keys_created", "Keys added to the state, returning keys included.")
KEYS_EXPIRED: Final = _counter("keys_expired", "Keys expired, by reason.", REASON)
RETURNING_KEYS: Final = _counter(
    "returning_keys", "Returning keys: keys that came back after they expired."
)
ABSENCE: Final = Name(
    f"{PREFIX}returning_key_absence_seconds",
    MetricKind.HISTOGRAM,
    "How long returning keys had been expired when they came back.",
    buckets=AGE_BUCKETS_S,
)
IDLE_AGE: Final = Name(
    f"{PREFIX}idle_age_seconds",
    MetricKind.GAUGE_HISTOGRAM,
    "Time since the last access of the keys in state, as of at most a minute before the newest "
    "batch.",
    buckets=AGE_BUCKETS_S,
)
KEYS_DUE: Final = _gauge(
    "keys_due",
    "Keys in state that expire or have a timer within this time unless they are used, overdue ones "
    "included.",
    WITHIN,
)
DISK_BYTES: Final = _gauge(
    "disk_bytes",
    "Bytes on disk, by part; dead is what no key needs: old versions and rows that newer ones "
    "replace.",
    PART,
)
EXPIRY_LAG: Final = _gauge(
    "expiry_lag_seconds",
    "How long the most overdue key that is still in state has been expired, in the operator's time "
    "(wall clock or watermark); 0 if no key is overdue.",
)
WATERMARK: Final = _gauge(
    "watermark_timestamp_seconds",
    "Watermark of the newest batch, as a Unix timestamp; 0 before the first one.",
)
LAST_BATCH: Final = _gauge(
    "last_batch_timestamp_seconds",
    "Time of the newest batch, as a Unix timestamp; 0 before the first one.",
)
BATCHES: Final = _counter("batches", "Batches committed.")
BATCH_DURATION: Final = Name(
    f"{PREFIX}batch_duration_seconds",
    MetricKind.HISTOGRAM,
    "Duration of the batches that this process ran.",
    buckets=BATCH_BUCKETS_S,
)
SWEEP_DURATION: Final = _steps(
    "sweep_duration_seconds", "Duration of the sweeps that this process ran."
)
EXCHANGE_DURATION: Final = _steps(
    "exchange_duration_seconds",
    "How long a Spark task exchanges its part of a batch with the sidecar, from its first call to "
    "its last.",
)
LOOKUP_DURATION: Final = _steps(
    "lookup_duration_seconds", "Duration of look-ups of keys, without the network."
)
COMPACTION_DURATION: Final = _steps(
    "compaction_duration_seconds", "Duration of the compactions that freed space."
)
SWEPT: Final = _gauge(
    "sweep_last_success_timestamp_seconds",
    "Unix timestamp of the last sweep that left nothing overdue; 0 before the first one.",
)
COMPACTED: Final = _gauge(
    "compaction_last_success_timestamp_seconds",
    "Unix timestamp of the last time that nothing was left to compact; 0 before the first time.",
)
RETENTION_MIN: Final = _gauge(
    "retention_min_seconds",
    "Minimum idle time before a key expires; 0 if the policy has no idle rule.",
)
RETENTION_MAX: Final = _gauge(
    "retention_max_seconds",
    "Maximum idle time before a key expires; 0 if the policy has no idle rule.",
)
RETENTION_TTL: Final = _gauge(
    "retention_ttl_seconds", "Time to live after the last write; 0 if the policy sets none."
)
RETENTION_LIFETIME: Final = _gauge(
    "retention_max_lifetime_seconds", "Maximum lifetime after creation; 0 if the policy sets none."
)
POLICY_VERSION: Final = _gauge(
    "policy_version", "Version of the retention policy that the newest batch used."
)
BUDGET_KEYS: Final = _gauge("budget_keys", "Budget for live keys; missing if none is set.")
BUDGET_BYTES: Final = _gauge("budget_bytes", "Budget for bytes of state; missing if none is set.")
BUDGET_FULL: Final = Name(
    f"{PREFIX}budget_full_seconds",
    MetricKind.GAUGE,
    "Seconds until the budget is full by the forecast; +Inf if not within seven days.",
    (OPERATOR, BUDGET),
)
FORECAST: Final = Name(
    f"{PREFIX}forecast_live_keys",
    MetricKind.GAUGE,
    "Live keys expected in 1h or 24h, as a range; missing while there is too little history.",
    (OPERATOR, HORIZON, BOUND),
)
FORECAST_FLOOR: Final = Name(
    f"{PREFIX}forecast_live_keys_floor",
    MetricKind.GAUGE,
    "Keys in state whose deadline is later than in 1h or 24h. At least this many keys remain.",
    (OPERATOR, HORIZON),
)
CONFIG_RELOADS: Final = Name(
    f"{PREFIX}config_reloads_total",
    MetricKind.COUNTER,
    "Configuration loads, including the one at startup, by result; a failed load changes nothing.",
    (RESULT,),
)
CONFIG_RELOAD_GOOD: Final = Name(
    f"{PREFIX}config_last_reload_successful",
    MetricKind.GAUGE,
    "Whether the last configuration load succeeded (1) or failed (0); missing before the first.",
    (),
)
CONFIG_RELOAD_TIME: Final = Name(
    f"{PREFIX}config_last_reload_success_timestamp_seconds",
    MetricKind.GAUGE,
    "Unix timestamp of the last successful configuration load; 0 before the query starts.",
    (),
)
DROPPED_FIGURES: Final = Name(
    f"{PREFIX}dropped_figures_total",
    MetricKind.COUNTER,
    "Progress reports dropped because too many were waiting.",
    (),
)
OVERFLOWED_SERIES: Final = Name(
    f"{PREFIX}overflowed_series_total",
    MetricKind.COUNTER,
    "Series that are not shown because of the limit on series.",
    (),
)
BUILD_INFO: Final = Name(
    f"{PREFIX}build_info", MetricKind.GAUGE, "Always 1; the label holds the version.", ("version",)
)

DURATIONS: Final = (
    BATCH_DURATION,
    SWEEP_DURATION,
    EXCHANGE_DURATION,
    LOOKUP_DURATION,
    COMPACTION_DURATION,
)
OF_OPERATOR: Final = (
    INPUT_ROWS,
    LATE_ROWS,
    REJECTED_ROWS,
    ROWS_BY_INPUT,
    LATE_BY_INPUT,
    REJECTED_BY_INPUT,
    LIVE_KEYS,
    STATE_BYTES,
    REMEMBERED_KEYS,
    REMEMBERED_BYTES,
    HELD_ROWS,
    KEYS_SEEN,
    KEYS_CREATED,
    KEYS_EXPIRED,
    RETURNING_KEYS,
    ABSENCE,
    IDLE_AGE,
    KEYS_DUE,
    DISK_BYTES,
    EXPIRY_LAG,
    WATERMARK,
    LAST_BATCH,
    BATCHES,
    RETENTION_MIN,
    RETENTION_MAX,
    RETENTION_TTL,
    RETENTION_LIFETIME,
    POLICY_VERSION,
    SWEPT,
    COMPACTED,
    BUDGET_KEYS,
    BUDGET_BYTES,
    BUDGET_FULL,
    FORECAST,
    FORECAST_FLOOR,
    *DURATIONS,
)
"""The families of operators, wherever they run."""
OF_RELOADS: Final = (CONFIG_RELOADS, CONFIG_RELOAD_GOOD, CONFIG_RELOAD_TIME)
ALL: Final = (*OF_OPERATOR, *OF_RELOADS, DROPPED_FIGURES, OVERFLOWED_SERIES, BUILD_INFO)
