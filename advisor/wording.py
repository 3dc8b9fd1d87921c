"""The advice in words and cells, for every report."""

from collections.abc import Iterator
from datetime import UTC, datetime

from idlestate.advisor.advice import Advice
from idlestate.advisor.censored_windows import CENSORED_MARK
from idlestate.advisor.knee import LEAST_DISTANCE, Knee
from idlestate.advisor.targets import ReturningTarget
from idlestate.advisor.window_outcome import WindowOutcome
from idlestate.config.plurals import counted
from idlestate.retention.durations import format_duration
from idlestate.retention.readable_quantities import in_bytes

HALVES_NOTE = "The log is divided in two halves by rows; each is judged as a log of its own."
_MINUTE_MS = 60_000


def facts(advice: Advice) -> list[tuple[str, str]]:
    """Facts about the log, as (name, value)."""
    extent = advice.extent
    span = format_duration(extent.span_ms - extent.span_ms % 1000)
    lines = [
        ("events", f"{extent.rows:,}"),
        ("keys", f"{extent.keys:,} by {', '.join(advice.key)}"),
        ("first to last", f"{moment(extent.first_ms)} to {moment(extent.last_ms)} UTC ({span})"),
        ("state per key", f"{advice.bytes_per_key:,.0f} B"),
    ]
    if advice.rejected_rows:
        lines.append(("rejected", counted(advice.rejected_rows, "row")))
    if advice.late_rows:
        lines.append(("late", counted(advice.late_rows, "row")))
    return lines


def headers(advice: Advice) -> list[str]:
    """The columns of the table of windows."""
    held = ["held keys"] if any(each.held_keys for each in advice.windows) else []
    return ["window", "returning keys", "share", "mean keys", "peak keys", *held, "most state"]


def cells(figures: WindowOutcome) -> list[str]:
    """The row of a window, with the columns of `headers`."""
    mark = f" {CENSORED_MARK}" if figures.is_censored else ""
    return [
        f"{figures.window}{mark}",
        f"{figures.returning:,}",
        percent(figures.returning_share),
        f"{figures.mean_keys:,.1f}",
        f"{figures.peak_keys:,}",
        *([f"{figures.most_keys:,}"] if figures.held_keys else []),
        in_bytes(figures.most_bytes),
    ]


def findings(advice: Advice) -> Iterator[tuple[str, str]]:
    """The notable windows, as (name, value)."""
    yield "knee", knee_in_words(advice.knee)
    for target in advice.targets:
        yield f"at most {target.share:.0%} returning", target_in_words(target)
    budget = advice.key_budget
    if budget is None:
        return
    name = f"at most {budget.keys:,} keys"
    if budget.all_fit:
        yield name, "any window: the log has no more keys"
    elif budget.window_ms is None:
        yield name, "no window: even 1s takes more"
    else:
        yield name, f"{format_duration(budget.window_ms)} or shorter"


def halves(advice: Advice) -> list[tuple[str, ...]]:
    """The table of halves: figure, first half, second half."""
    if not advice.halves:
        return []
    both = advice.halves
    rows: list[tuple[str, ...]] = [
        ("", "first half", "second half"),
        ("from", *(moment(half.extent.first_ms) for half in both)),
        ("events", *(f"{half.extent.rows:,}" for half in both)),
        ("keys", *(f"{half.extent.keys:,}" for half in both)),
        ("knee", *(knee_in_words(half.knee) for half in both)),
    ]
    for at, target in enumerate(advice.targets):
        name = f"at most {target.share:.0%} returning"
        rows.append((name, *(target_in_words(half.targets[at]) for half in both)))
    return rows


def policy_in_words(advice: Advice) -> str:
    """The outcome of the suggested policy for the log."""
    low, high = advice.policy_bounds
    return (
        f"With this policy {high.returning:,} to {low.returning:,} keys return "
        f"({percent(high.returning_share)} to {percent(low.returning_share)} of lives), and the "
        f"state holds at most {low.most_keys:,} to {high.most_keys:,} keys "
        f"({in_bytes(low.most_bytes)} to {in_bytes(high.most_bytes)})."
    )


def knee_in_words(knee: Knee) -> str:
    """The knee, or why there is none."""
    if knee.window_ms is not None:
        return format_duration(knee.window_ms)
    return f"no knee (distance {knee.distance:.2f}, below {LEAST_DISTANCE})"


def target_in_words(target: ReturningTarget) -> str:
    """The smallest window for a share of returning keys."""
    mark = f" {CENSORED_MARK}" if target.is_censored else ""
    return f"{format_duration(target.window_ms)}{mark} or longer"


def has_censored(advice: Advice) -> bool:
    """Whether anything is marked as censored."""
    targets = [*advice.targets, *(target for half in advice.halves for target in half.targets)]
    return any(each.is_censored for each in advice.windows) or any(
        target.is_censored for target in targets
    )


def percent(share: float) -> str:
    """A share in percent; small ones with more digits."""
    return f"{share:.1%}" if share >= 0.01 or not share else f"{share:.2%}"


def moment(t_ms: int) -> str:
    """A time, to the minute."""
    return f"{datetime.fromtimestamp(t_ms / 1000, UTC):%Y-%m-%d %H:%M}"
