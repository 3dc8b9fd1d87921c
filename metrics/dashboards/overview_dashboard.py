"""Overview: whether anything grows, what expires, how far expiry lags, and when a budget is
full.
"""

from idlestate.metrics.dashboards.dashboard_model import Board, Kind, Panel, PanelRow, Query, Unit

_UNBOUNDED = (
    "count(max by (operator) (idlestate_live_keys{$of}) unless on (operator)"
    " (idlestate_retention_max_seconds{$of} > 0 or idlestate_retention_ttl_seconds{$of} > 0"
    " or idlestate_retention_max_lifetime_seconds{$of} > 0"
    ' or idlestate_keys_due{$of, within="24h"} > 0)) or vector(0)'
)
_GROWING = (
    "count(max by (operator) (operator:idlestate_live_keys:min1d{$of}) > 1.1 *"
    " max by (operator) (operator:idlestate_live_keys:min1d{$of} offset 1d)) or vector(0)"
)

_NUMBERS = PanelRow(
    "Is anything wrong?",
    (
        Panel(
            title="Alerts",
            description="Alerts of idlestate that fire now. Open the runbook section of each.",
            unit=Unit.COUNT,
            kind=Kind.NUMBER,
            width=4,
            warn_at=1,
            queries=(
                Query(
                    'count(ALERTS{alertname=~"Idlestate.+", alertstate="firing"}) or vector(0)',
                    "firing",
                ),
            ),
        ),
        Panel(
            title="Operators without retention",
            description="No rule, and nothing else, ends a key of theirs within a day: state"
            " grows with every new key. Give each a policy with idle, ttl or max_lifetime;"
            " `idlestate advise` proposes one.",
            unit=Unit.COUNT,
            kind=Kind.NUMBER,
            width=4,
            warn_at=1,
            queries=(Query(_UNBOUNDED, "operators"),),
        ),
        Panel(
            title="Growing day over day",
            description="Operators whose lowest number of keys of the last 24 hours is more"
            " than 10 % above that of the day before. Look at them on the Operator"
            " dashboard: either traffic grows, or the window is longer than it has"
            " to be.",
            unit=Unit.COUNT,
            kind=Kind.NUMBER,
            width=4,
            warn_at=1,
            queries=(Query(_GROWING, "operators"),),
        ),
        Panel(
            title="Longest expiry lag",
            description="How long the most overdue key that is still in state has been expired."
            " Minutes are normal while a backlog is processed; otherwise look at sweeps"
            " and batches of that operator.",
            unit=Unit.SECONDS,
            kind=Kind.NUMBER,
            width=4,
            warn_at=300,
            queries=(Query("max(idlestate_expiry_lag_seconds{$of})", "lag"),),
        ),
        Panel(
            title="First budget full in",
            description="When the first budget will be full by the forecast; one week means"
            " not within a week. Shorten the window of that operator or raise its"
            " budget.",
            unit=Unit.SECONDS,
            kind=Kind.NUMBER,
            width=4,
            queries=(
                Query("clamp_max(min(idlestate_budget_full_seconds{$of}), 604800)", "full in"),
            ),
        ),
        Panel(
            title="Stopped operators",
            description="Operators of sidecars that wait for manual action. The sidecar's log"
            " says why each of them stopped.",
            unit=Unit.COUNT,
            kind=Kind.NUMBER,
            width=4,
            warn_at=1,
            queries=(Query("sum(idlestate_operator_stopped{$of}) or vector(0)", "stopped"),),
        ),
    ),
)

_GROWTH = PanelRow(
    "Is anything growing?",
    (
        Panel(
            title="Live keys",
            description="Keys in state. A curve that only rises over days has no retention, or"
            " a window longer than the data is old.",
            unit=Unit.COUNT,
            queries=(Query("max by (operator) (idlestate_live_keys{$of})", "{{operator}}"),),
        ),
        Panel(
            title="Keys seen per key kept",
            description="How many times larger the state would be without retention. Near 1,"
            " retention does not help: keys do not become idle, or the window is"
            " too long.",
            unit=Unit.COUNT,
            queries=(
                Query(
                    "max by (operator) (idlestate_keys_seen{$of}) /"
                    " max by (operator) (idlestate_live_keys{$of} > 0)",
                    "{{operator}}",
                ),
            ),
        ),
        Panel(
            title="Created less expired",
            description="Keys that state gains per second; below 0 it shrinks. Above 0 for"
            " days means growth.",
            unit=Unit.PER_SECOND,
            is_signed=True,
            queries=(
                Query(
                    "max by (operator) (rate(idlestate_keys_created_total{$of}[$__rate_interval]))"
                    " - sum by (operator) (max by (operator, reason)"
                    " (rate(idlestate_keys_expired_total{$of}[$__rate_interval])))",
                    "{{operator}}",
                ),
            ),
        ),
        Panel(
            title="Now and in 24 hours",
            description="Live keys now and the range of the forecast, beside the budget. Where"
            " the high end is above the budget, act today.",
            unit=Unit.COUNT,
            kind=Kind.TABLE,
            queries=(
                Query("max by (operator) (idlestate_live_keys{$of})", "now"),
                Query(
                    "max by (operator) (idlestate_forecast_live_keys"
                    '{$of, horizon="24h", bound="low"})',
                    "in 24 h, low",
                ),
                Query(
                    "max by (operator) (idlestate_forecast_live_keys"
                    '{$of, horizon="24h", bound="high"})',
                    "in 24 h, high",
                ),
                Query("max by (operator) (idlestate_budget_keys{$of})", "budget"),
            ),
        ),
    ),
)

_EXPIRY = PanelRow(
    "What expires?",
    (
        Panel(
            title="Expired keys by reason",
            description="Keys that expire per second. None for longer than the longest window"
            " means that nothing expires: look at the expiry lag and the"
            " watermark.",
            unit=Unit.PER_SECOND,
            stacked=True,
            queries=(
                Query(
                    "sum by (reason) (max by (operator, reason)"
                    " (rate(idlestate_keys_expired_total{$of}[$__rate_interval])))",
                    "{{reason}}",
                ),
            ),
        ),
        Panel(
            title="Returning keys",
            description="Share of the keys created in the last day that came back after they"
            " expired. Above 10 % the window is too short: see the Policy"
            " dashboard.",
            unit=Unit.SHARE,
            warn_at=0.1,
            queries=(
                Query(
                    "max by (operator) (operator:idlestate_returning_keys:ratio1d{$of})",
                    "{{operator}}",
                ),
            ),
        ),
        Panel(
            title="Disk by part",
            description="Bytes on disk: open lives, remembered keys, expired records, and dead"
            " files that wait for removal. Much expired_log means that nobody"
            " acknowledges expired records; much dead means that compaction is"
            " behind.",
            unit=Unit.BYTES,
            stacked=True,
            queries=(
                Query(
                    "sum by (part) (max by (operator, part) (idlestate_disk_bytes{$of}))",
                    "{{part}}",
                ),
            ),
        ),
    ),
)

OVERVIEW = Board(
    uid="overview",
    title="idlestate / Overview",
    description="Is any state growing, what expires, how far behind, and when is a budget full?",
    label="operator",
    found_by="idlestate_live_keys",
    rows=(_NUMBERS, _GROWTH, _EXPIRY),
)
