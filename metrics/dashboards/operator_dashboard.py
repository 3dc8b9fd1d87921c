"""One operator in depth: size, forecast, expiry, traffic, durations, store."""

from idlestate.metrics.dashboards.dashboard_model import Board, Kind, Panel, PanelRow, Query, Unit
from idlestate.metrics.dashboards.store_row import STORE

_OPERATOR = "{{operator}}"


def _p99(metric: str) -> tuple[Query, ...]:
    return tuple(
        Query(
            f"histogram_quantile({quantile}, sum by (le, operator)"
            f" (rate({metric}_bucket{{$of}}[$__rate_interval])))",
            f"p{quantile * 100:g} {_OPERATOR}",
        )
        for quantile in (0.5, 0.99)
    )


_SIZE = PanelRow(
    "Size",
    (
        Panel(
            title="Keys, forecast and budget",
            description="Live keys, the range that was forecast for this moment a day ago, the"
            " keys that surely stay for 24 hours, and the budget. Keys above the"
            " range mean that traffic has changed; the range above the budget"
            " means that it will be full.",
            unit=Unit.COUNT,
            width=24,
            queries=(
                Query("max by (operator) (idlestate_live_keys{$of})", f"keys {_OPERATOR}"),
                Query(
                    "max by (operator, bound) (idlestate_forecast_live_keys"
                    '{$of, horizon="24h"} offset 1d)',
                    f"forecast {{{{bound}}}} {_OPERATOR}",
                ),
                Query(
                    'max by (operator) (idlestate_forecast_live_keys_floor{$of, horizon="24h"})',
                    f"stay for 24 h {_OPERATOR}",
                ),
                Query("max by (operator) (idlestate_budget_keys{$of})", f"budget {_OPERATOR}"),
            ),
        ),
        Panel(
            title="Bytes of state and budget",
            description="Size of the state without old versions. When it comes near the"
            " budget, shorten the window or drop aggregates.",
            unit=Unit.BYTES,
            queries=(
                Query("max by (operator) (idlestate_state_bytes{$of})", f"state {_OPERATOR}"),
                Query("max by (operator) (idlestate_budget_bytes{$of})", f"budget {_OPERATOR}"),
            ),
        ),
        Panel(
            title="Budget full in",
            description="By the forecast; one week means not within a week. Below a day, act.",
            unit=Unit.SECONDS,
            queries=(
                Query(
                    "clamp_max(min by (operator, budget) (idlestate_budget_full_seconds{$of}),"
                    " 604800)",
                    f"{{{{budget}}}} {_OPERATOR}",
                ),
            ),
        ),
        Panel(
            title="Bytes per key",
            description="Rises when aggregates hold more, such as long strings in last or"
            " max_by. Keep such columns short.",
            unit=Unit.BYTES,
            queries=(
                Query(
                    "max by (operator)"
                    " (idlestate_state_bytes{$of} / (idlestate_live_keys{$of} > 0))",
                    _OPERATOR,
                ),
            ),
        ),
        Panel(
            title="Disk per byte of state",
            description="Old versions, remembered keys and expired records included. Above 5"
            " for hours, look at Disk by part on the Overview.",
            unit=Unit.COUNT,
            queries=(
                Query(
                    "sum by (operator) (max by (operator, part) (idlestate_disk_bytes{$of})) /"
                    " max by (operator) (idlestate_state_bytes{$of} > 0)",
                    _OPERATOR,
                ),
            ),
        ),
    ),
)

_EXPIRY = PanelRow(
    "Expiry",
    (
        Panel(
            title="Due keys",
            description="Live keys whose deadline is within the next hour or day, overdue ones"
            " included, if nobody uses them before. The next sweeps will have this"
            " much work.",
            unit=Unit.COUNT,
            queries=(
                Query(
                    "max by (operator, within) (idlestate_keys_due{$of})",
                    f"within {{{{within}}}} {_OPERATOR}",
                ),
            ),
        ),
        Panel(
            title="Expiry lag",
            description="How long the most overdue key that is still in state has been expired."
            " A line that climbs at 45 degrees means that nothing is swept: check batches"
            " and the sidecar.",
            unit=Unit.SECONDS,
            warn_at=300,
            queries=(Query("max by (operator) (idlestate_expiry_lag_seconds{$of})", _OPERATOR),),
        ),
        Panel(
            title="Watermark behind the clock",
            description="Event time lags by this much; keys expire as much later. A line that"
            " climbs means no events, or one that is stuck. Replayed data is"
            " behind by its age.",
            unit=Unit.SECONDS,
            queries=(
                Query(
                    "min by (operator) (time() - (idlestate_watermark_timestamp_seconds{$of} > 0))",
                    _OPERATOR,
                ),
            ),
        ),
        Panel(
            title="Expired records waiting",
            description="Expired records that a sidecar keeps for its consumers. If they pile"
            " up, a consumer does not acknowledge them: start it, or remove it.",
            unit=Unit.COUNT,
            queries=(Query("max by (operator) (idlestate_expired_records_kept{$of})", _OPERATOR),),
        ),
    ),
)

_TRAFFIC = PanelRow(
    "Traffic",
    (
        Panel(
            title="Rows read",
            description="Input rows per second. 0 while the source has data means that the"
            " query is stuck.",
            unit=Unit.ROWS_PER_SECOND,
            queries=(
                Query(
                    "max by (operator) (rate(idlestate_input_rows_total{$of}[$__rate_interval]))",
                    _OPERATOR,
                ),
            ),
        ),
        Panel(
            title="Late and rejected rows",
            description="Rows that change no state, by reason. For many late rows raise delay;"
            " for the others look at the rejects sink.",
            unit=Unit.ROWS_PER_SECOND,
            stacked=True,
            queries=(
                Query(
                    "sum by (reason) (max by (operator, reason)"
                    " (rate(idlestate_rejected_rows_total{$of}[$__rate_interval])))",
                    "{{reason}}",
                ),
                Query(
                    "sum(max by (operator)"
                    " (rate(idlestate_late_rows_total{$of}[$__rate_interval])))",
                    "late",
                ),
            ),
        ),
        Panel(
            title="Rows by input",
            description="Of operators with two inputs: rows read of each per second. An input at 0"
            " holds the watermark back, unless idle_after is set: repair its source or set it.",
            unit=Unit.ROWS_PER_SECOND,
            queries=(
                Query(
                    "max by (operator, input)"
                    " (rate(idlestate_rows_by_input_total{$of}[$__rate_interval]))",
                    "{{operator}} {{input}}",
                ),
            ),
        ),
        Panel(
            title="Late and rejected rows by input",
            description="Of operators with two inputs: rows of each that change no state. Raise the"
            " delay of an input with many late rows.",
            unit=Unit.ROWS_PER_SECOND,
            queries=(
                Query(
                    "max by (operator, input)"
                    " (rate(idlestate_late_rows_by_input_total{$of}[$__rate_interval]))",
                    "late {{operator}} {{input}}",
                ),
                Query(
                    "max by (operator, input)"
                    " (rate(idlestate_rejected_rows_by_input_total{$of}[$__rate_interval]))",
                    "rejected {{operator}} {{input}}",
                ),
            ),
        ),
        Panel(
            title="Waiting rows",
            description="Rows that wait until the watermark reaches them: with in_order, of as-of"
            " joins and of running aggregates. If they only grow, the watermark is stuck: look at"
            " the source.",
            unit=Unit.COUNT,
            queries=(Query("max by (operator) (idlestate_held_rows{$of})", _OPERATOR),),
        ),
        Panel(
            title="Quarantined rows",
            description="Direct writes that a sidecar acknowledged but could not apply. Each"
            " needs manual action: see the runbook.",
            unit=Unit.COUNT,
            warn_at=1,
            queries=(Query("max by (operator) (idlestate_quarantined_rows{$of})", _OPERATOR),),
        ),
        Panel(
            title="Policy version",
            description="A step is a policy change. If keys or returning keys change after it,"
            " the new policy is the reason.",
            unit=Unit.COUNT,
            queries=(Query("max by (operator) (idlestate_policy_version{$of})", _OPERATOR),),
        ),
    ),
)

_DURATIONS = PanelRow(
    "Durations",
    (
        Panel(
            title="Batches",
            description="Near the trigger interval, batches queue up: add partitions or cores.",
            unit=Unit.SECONDS,
            queries=_p99("idlestate_batch_duration_seconds"),
        ),
        Panel(
            title="Sweeps",
            description="Long sweeps mean that many keys expire at once: widen idle min to max.",
            unit=Unit.SECONDS,
            queries=_p99("idlestate_sweep_duration_seconds"),
        ),
        Panel(
            title="Exchanges with the sidecar",
            description="What a task waits for its sidecar. If it grows, add workers.",
            unit=Unit.SECONDS,
            queries=_p99("idlestate_exchange_duration_seconds"),
        ),
        Panel(
            title="Look-ups",
            description="What readers wait. If it grows, raise cache_mb or look at the store"
            " below.",
            unit=Unit.SECONDS,
            queries=_p99("idlestate_lookup_duration_seconds"),
        ),
        Panel(
            title="Compactions",
            description="Merges of files. Long ones take disk bandwidth from look-ups.",
            unit=Unit.SECONDS,
            queries=_p99("idlestate_compaction_duration_seconds"),
        ),
        Panel(
            title="Since the last success",
            description="Time since the last sweep and compaction. Sweeps that are minutes old"
            " are stuck: see the sidecar's log.",
            unit=Unit.SECONDS,
            queries=(
                Query(
                    "min by (operator) (time() -"
                    " (idlestate_sweep_last_success_timestamp_seconds{$of} > 0))",
                    f"sweep {_OPERATOR}",
                ),
                Query(
                    "min by (operator) (time() -"
                    " (idlestate_compaction_last_success_timestamp_seconds{$of} > 0))",
                    f"compaction {_OPERATOR}",
                ),
            ),
        ),
    ),
)

_STOPPED = PanelRow(
    "State of the operator",
    (
        Panel(
            title="Stopped",
            description="1: the operator waits for manual action. The sidecar's log says why.",
            unit=Unit.COUNT,
            kind=Kind.NUMBER,
            width=6,
            warn_at=1,
            queries=(Query("max by (operator) (idlestate_operator_stopped{$of})", _OPERATOR),),
        ),
        Panel(
            title="Idle window",
            description="Longest idle time of a key, by the policy in force; 0: no idle rule.",
            unit=Unit.SECONDS,
            kind=Kind.NUMBER,
            width=6,
            queries=(Query("max by (operator) (idlestate_retention_max_seconds{$of})", _OPERATOR),),
        ),
        Panel(
            title="Time to live",
            description="Longest time after the last write; 0: no such rule.",
            unit=Unit.SECONDS,
            kind=Kind.NUMBER,
            width=6,
            queries=(Query("max by (operator) (idlestate_retention_ttl_seconds{$of})", _OPERATOR),),
        ),
        Panel(
            title="Longest life",
            description="Longest time after creation; 0: no such rule, busy keys stay forever.",
            unit=Unit.SECONDS,
            kind=Kind.NUMBER,
            width=6,
            queries=(
                Query(
                    "max by (operator) (idlestate_retention_max_lifetime_seconds{$of})", _OPERATOR
                ),
            ),
        ),
    ),
)

OPERATOR = Board(
    uid="operator",
    title="idlestate / Operator",
    description="One operator in depth: size and forecast, expiry, traffic, durations, store.",
    label="operator",
    found_by="idlestate_live_keys",
    rows=(_STOPPED, _SIZE, _EXPIRY, _TRAFFIC, _DURATIONS, STORE),
)
