"""Names of the metrics that only sidecars have, about the process and the state in it."""

from typing import Final

from idlestate.metrics import families
from idlestate.metrics.families import OPERATOR, PREFIX, RESULT, MetricKind, Name
from idlestate.metrics.rocksdb_metrics import PROPERTIES


def _name(name: str, kind: MetricKind, text: str, *labels: str) -> Name:
    end = "_total" if kind is MetricKind.COUNTER else ""
    return Name(f"{PREFIX}{name}{end}", kind, text, labels)


COMMITTED_BATCH: Final = _name(
    "committed_batch", MetricKind.GAUGE, "Newest committed batch of the owner query.", OPERATOR
)
EXPIRED_KEPT: Final = _name(
    "expired_records_kept",
    MetricKind.GAUGE,
    "Expired records kept until all consumers acknowledge them or their retention ends.",
    OPERATOR,
)
EXPIRED_NUMBERED: Final = _name(
    "expired_records", MetricKind.COUNTER, "Expired records produced.", OPERATOR
)
WAITING_WRITES: Final = _name(
    "waiting_writes",
    MetricKind.GAUGE,
    "Direct writes that wait for the open batch to end.",
    OPERATOR,
)
QUARANTINED: Final = _name(
    "quarantined_rows",
    MetricKind.GAUGE,
    "Quarantined rows: acknowledged direct writes that could not be applied after a batch.",
    OPERATOR,
)
DUPLICATES: Final = _name(
    "duplicate_writes",
    MetricKind.COUNTER,
    "Direct writes ignored because their writer had already sent an equal or higher number.",
    OPERATOR,
)
FORGOTTEN_CONSUMERS: Final = _name(
    "forgotten_consumers",
    MetricKind.COUNTER,
    "Consumers dropped because they acknowledged no expired records for the whole retention.",
    OPERATOR,
)
STOPPED: Final = _name(
    "operator_stopped",
    MetricKind.GAUGE,
    "Whether the operator is stopped (1) until someone takes manual action, or runs (0).",
    OPERATOR,
)
STORE_BYTES: Final = _name(
    "sidecar_store_bytes", MetricKind.GAUGE, "Size of the store on disk in bytes."
)
WORKERS: Final = _name(
    "sidecar_workers",
    MetricKind.GAUGE,
    "Running worker processes; 1 if the sidecar has no workers.",
)
WORKER_RESTARTS: Final = _name(
    "sidecar_worker_restarts",
    MetricKind.COUNTER,
    "Worker processes restarted after they died.",
)
EXCHANGES: Final = _name(
    "sidecar_exchanges",
    MetricKind.GAUGE,
    "Exchanges in progress, each with a Spark task for its part of a batch.",
)
CLOCK_DIVERGENCE: Final = _name(
    "sidecar_clock_divergence_seconds",
    MetricKind.GAUGE,
    "How far the wall clock has moved ahead of the monotonic clock since it was last accepted.",
)
CLOCK_STEPPED: Final = _name(
    "sidecar_clock_stepped",
    MetricKind.GAUGE,
    "Whether sweeps are paused because the wall clock jumped (1), or not (0).",
)
TROUBLES: Final = _name(
    "sidecar_job_troubles",
    MetricKind.COUNTER,
    "Background jobs that failed, were missed or overlapped, by result.",
    RESULT,
)

OF_SIDECAR: Final = (
    COMMITTED_BATCH,
    EXPIRED_KEPT,
    EXPIRED_NUMBERED,
    WAITING_WRITES,
    QUARANTINED,
    DUPLICATES,
    FORGOTTEN_CONSUMERS,
    STOPPED,
    STORE_BYTES,
    WORKERS,
    WORKER_RESTARTS,
    EXCHANGES,
    CLOCK_DIVERGENCE,
    CLOCK_STEPPED,
    TROUBLES,
    *PROPERTIES,
    *families.OF_RELOADS,
)
