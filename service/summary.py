"""The summary at the end of a run."""

from idlestate.config.plurals import counted
from idlestate.metrics.growth_log import GrowthLog
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.readable_quantities import in_bytes


def summary(
    figures: OperatorStatistics,
    growth: GrowthLog,
    policy: Policy,
    *,
    life_seconds: float,
    run_rows: int,
    run_seconds: float,
) -> list[tuple[str, str]]:
    """Figures over all runs of the query, as (name, figure) lines."""
    exact = policy.remember_for_ms == FOREVER_MS
    about = "" if exact else "about "
    peak = growth.peak()
    peak_keys = max(peak.live_keys if peak else 0, figures.live_keys)
    expired = figures.keys_expired
    reasons = ", ".join(f"{count:,} {name}" for name, count in expired.items() if count)
    by_reason = ", ".join(f"{n:,} {name}" for name, n in figures.rejected_rows.items() if n)
    # The estimate of the keys ever seen may be slightly below the counted keys.
    seen = max(figures.keys_seen, peak_keys)
    without = f"{about}{counted(seen, 'key')}, {in_bytes(seen * growth.bytes_per_key())}"
    if peak_keys:
        without += f": {seen / peak_keys:,.1f} times the peak"
    share = figures.returning_keys / figures.keys_created if figures.keys_created else 0.0
    remembered = in_bytes(figures.remembered_bytes)
    lives = counted(figures.keys_created, "life", "lives")
    return [
        ("keys ever seen", f"{about}{seen:,}"),
        ("live now", f"{counted(figures.live_keys, 'key')}, {in_bytes(figures.state_bytes)}"),
        ("peak", counted(peak_keys, "key")),
        (
            "expired",
            counted(figures.expired_total, "life", "lives") + (f" ({reasons})" if reasons else ""),
        ),
        ("without retention", without),
        ("returning keys", f"{figures.returning_keys:,} ({share:.1%} of {lives})"),
        ("remembered", f"{counted(figures.remembered_keys, 'ended key')}, {remembered}"),
        ("rows", f"{figures.input_rows:,}"),
        ("late rows", f"{figures.late_rows:,}"),
        ("rejected rows", f"{figures.rejected_total:,}" + (f" ({by_reason})" if by_reason else "")),
        ("time in batches", _pace(figures.input_rows, life_seconds)),
        ("this run", f"{counted(run_rows, 'row')}, {_pace(run_rows, run_seconds)}"),
    ]


def _pace(rows: int, seconds: float) -> str:
    return f"{seconds:,.1f} s, {rows / seconds if seconds else 0.0:,.0f} rows/s"
