"""Tuning a policy: how idle keys are now, which come back, what another hour would save."""

from idlestate.metrics.dashboards.dashboard_model import Board, Kind, Panel, PanelRow, Query, Unit

_IDLE = "max by (le, operator) (idlestate_idle_age_seconds_bucket{$of})"
_AWAY = "max by (le, operator) (rate(idlestate_returning_key_absence_seconds_bucket{$of}[6h]))"

_NOW = PanelRow(
    "Are keys idle for long?",
    (
        Panel(
            title="Idle age of the keys now",
            description="Live keys by the time since their last access. Many keys in the"
            " longest buckets wait for nothing but their deadline: a shorter"
            " window would remove them.",
            unit=Unit.COUNT,
            kind=Kind.BARS,
            queries=(Query(f"sum by (le) ({_IDLE})", "{{le}}"),),
        ),
        Panel(
            title="Idle age and the window",
            description="Half, 90 % and 99 % of the keys were accessed within this time. If"
            " the 90 % line is far below the window, most of the window is held"
            " for few keys.",
            unit=Unit.SECONDS,
            queries=(
                *(
                    Query(
                        f"histogram_quantile({quantile}, sum by (le) ({_IDLE}))",
                        f"p{quantile * 100:g}",
                    )
                    for quantile in (0.5, 0.9, 0.99)
                ),
                Query(
                    "max by (operator) (idlestate_retention_max_seconds{$of})",
                    "window {{operator}}",
                ),
            ),
        ),
    ),
)

_RETURNS = PanelRow(
    "Do keys come back?",
    (
        Panel(
            title="Returning keys of all created",
            description="Share of new lives whose key had expired before, over 6 hours. Above"
            " 10 % the window is too short: lengthen it by what the panel beside"
            " says.",
            unit=Unit.SHARE,
            warn_at=0.1,
            queries=(
                Query(
                    "max by (operator) (rate(idlestate_returning_keys_total{$of}[6h])) /"
                    " max by (operator) (rate(idlestate_keys_created_total{$of}[6h]) > 0)",
                    "{{operator}}",
                ),
            ),
        ),
        Panel(
            title="How long they had been away",
            description="Time from expiry to return. If half of them come back within minutes,"
            " a window longer by as much keeps them.",
            unit=Unit.SECONDS,
            queries=tuple(
                Query(
                    f"histogram_quantile({quantile}, sum by (le) ({_AWAY}))", f"p{quantile * 100:g}"
                )
                for quantile in (0.5, 0.9)
            ),
        ),
    ),
)

_PRICE = PanelRow(
    "What would another window cost?",
    (
        Panel(
            title="Saved by one hour more",
            description="Share of the returning keys of the last day that a window one hour"
            " longer would have kept. Below a few percent, a longer window does"
            " not pay.",
            unit=Unit.SHARE,
            kind=Kind.NUMBER,
            width=8,
            queries=(
                Query(
                    "sum(increase(idlestate_returning_key_absence_seconds_bucket"
                    '{$of, le="3600.0"}[1d])) /'
                    " sum(increase(idlestate_returning_key_absence_seconds_count{$of}[1d]))",
                    "saved",
                ),
            ),
        ),
        Panel(
            title="Key-hours held per returning key",
            description="What the state holds in a day for each key that came back. The"
            " higher, the more a shorter window saves for the same number of"
            " returns.",
            unit=Unit.COUNT,
            kind=Kind.NUMBER,
            width=8,
            queries=(
                Query(
                    "24 * sum(max by (operator) (avg_over_time(idlestate_live_keys{$of}[1d]))) /"
                    " sum(max by (operator) (increase(idlestate_returning_keys_total{$of}[1d])))",
                    "key-hours",
                ),
            ),
        ),
        Panel(
            title="Mean life",
            description="How long a key stays in state. Close to the window, most keys are"
            " used once and then only wait: `idlestate advise` shows what a"
            " shorter window would do.",
            unit=Unit.SECONDS,
            kind=Kind.NUMBER,
            width=8,
            queries=(
                Query(
                    "max by (operator) (avg_over_time(idlestate_live_keys{$of}[1d])) /"
                    " max by (operator) (rate(idlestate_keys_created_total{$of}[1d]) > 0)",
                    "{{operator}}",
                ),
            ),
        ),
    ),
)

POLICY = Board(
    uid="policy",
    title="idlestate / Policy tuning",
    description="Is the retention window too long or too short?",
    label="operator",
    found_by="idlestate_live_keys",
    rows=(_NOW, _RETURNS, _PRICE),
)
