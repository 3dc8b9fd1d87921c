"""Names, labels, help texts and buckets of everything that idlestate exports.

Dashboards and alerts are written against these; renaming one is a breaking change. A key of the
state, a user or a file is never a label: the only labels are `operator` (from the configuration),
`reason` and `result` (from the lists below), and `version`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PREFIX: Final = "idlestate_"

OPERATOR: Final = "operator"
REASON: Final = "reason"
RESULT: Final = "result"

OTHER: Final = "__other__"
"""The label value that stands for every value that is not on its list."""

SET_ASIDE_REASONS: Final = (
    "null_time",
    "too_old",
    "too_far_ahead",
    "malformed",
    "null_key",
)
EXPIRY_REASONS: Final = ("idle", "ttl", "lifetime")
RELOAD_RESULTS: Final = ("success", "failure")

BATCH_BUCKETS_S: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
"""From a batch of a few rows to one that catches up on a night's backlog."""


class Kind(StrEnum):
    """What Prometheus may do with a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Name:
    """One metric family."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = (OPERATOR,)


def _counter(name: str, text: str, *more_labels: str) -> Name:
    return Name(f"{PREFIX}{name}_total", Kind.COUNTER, text, (OPERATOR, *more_labels))


def _gauge(name: str, text: str) -> Name:
    return Name(PREFIX + name, Kind.GAUGE, text)


INPUT_ROWS: Final = _counter("input_rows", "Rows read, late and set-aside ones included.")
LATE_ROWS: Final = _counter("late_rows", "Rows at or behind the watermark, which touched nothing.")
SET_ASIDE_ROWS: Final = _counter(
    "set_aside_rows", "Rows set aside before the watermark saw them, by reason.", REASON
)
LIVE_KEYS: Final = _gauge("live_keys", "Keys with an open life after the newest batch.")
STATE_BYTES: Final = _gauge("state_bytes", "Size of the state after the newest batch.")
REMEMBERED_KEYS: Final = _gauge(
    "remembered_keys", "Ended keys of which hash and end are kept, to know a comeback by."
)
REMEMBERED_BYTES: Final = _gauge(
    "remembered_bytes", "Size of what is kept of ended keys, not part of the state's size."
)
KEYS_SEEN: Final = _gauge(
    "keys_seen", "Distinct keys ever seen, an estimate: the state's size without retention."
)
KEYS_CREATED: Final = _counter("keys_created", "Lives begun.")
KEYS_EXPIRED: Final = _counter("keys_expired", "Lives ended, by reason.", REASON)
COMEBACKS: Final = _counter("comebacks", "Lives begun by a key that was still remembered.")
WATERMARK: Final = _gauge(
    "watermark_timestamp_seconds", "Watermark of the newest batch; 0 while there is none."
)
LAST_BATCH: Final = _gauge(
    "last_batch_timestamp_seconds", "Time of the newest batch; 0 while there is none."
)
BATCHES: Final = _counter("batches", "Batches committed.")
BATCH_DURATION: Final = Name(
    f"{PREFIX}batch_duration_seconds",
    Kind.HISTOGRAM,
    "How long the batches of this process took.",
)
RETENTION_MIN: Final = _gauge(
    "retention_min_seconds", "Idle retention in force: a key lives at least this long; 0 is off."
)
RETENTION_MAX: Final = _gauge(
    "retention_max_seconds", "Idle retention in force: a key lives at most this long; 0 is off."
)
RETENTION_TTL: Final = _gauge(
    "retention_ttl_seconds", "Time to live in force, from the last write; 0 is off."
)
RETENTION_LIFETIME: Final = _gauge(
    "retention_max_lifetime_seconds", "Longest life in force, from creation; 0 is off."
)
POLICY_VERSION: Final = _gauge(
    "policy_version", "Version of the retention policy that the newest batch went by."
)
CONFIG_RELOADS: Final = Name(
    f"{PREFIX}config_reloads_total",
    Kind.COUNTER,
    "How often the configuration was read, the start included, by result; refused changes nothing.",
    (RESULT,),
)
CONFIG_RELOAD_GOOD: Final = Name(
    f"{PREFIX}config_last_reload_successful",
    Kind.GAUGE,
    "Whether the configuration that was read last was taken (1), or not (0).",
    (),
)
CONFIG_RELOAD_TIME: Final = Name(
    f"{PREFIX}config_last_reload_success_timestamp_seconds",
    Kind.GAUGE,
    "When a configuration was taken last; 0 before the query started.",
    (),
)
DROPPED_FIGURES: Final = Name(
    f"{PREFIX}dropped_figures_total",
    Kind.COUNTER,
    "Reports of operators that this process does not run.",
    (),
)
BUILD_INFO: Final = Name(
    f"{PREFIX}build_info", Kind.GAUGE, "Always 1; the version is in the label.", ("version",)
)

ALL: Final = (
    INPUT_ROWS,
    LATE_ROWS,
    SET_ASIDE_ROWS,
    LIVE_KEYS,
    STATE_BYTES,
    REMEMBERED_KEYS,
    REMEMBERED_BYTES,
    KEYS_SEEN,
    KEYS_CREATED,
    KEYS_EXPIRED,
    COMEBACKS,
    WATERMARK,
    LAST_BATCH,
    BATCHES,
    BATCH_DURATION,
    RETENTION_MIN,
    RETENTION_MAX,
    RETENTION_TTL,
    RETENTION_LIFETIME,
    POLICY_VERSION,
    CONFIG_RELOADS,
    CONFIG_RELOAD_GOOD,
    CONFIG_RELOAD_TIME,
    DROPPED_FIGURES,
    BUILD_INFO,
)
