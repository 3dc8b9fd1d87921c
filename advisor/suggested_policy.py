"""The policy that a log suggests, ready for a configuration file."""

import re
from dataclasses import dataclass

from idlestate.advisor.censored_windows import CENSORED_SHARE
from idlestate.advisor.knee import Knee
from idlestate.advisor.targets import KeyBudget, ReturningTarget
from idlestate.retention.durations import UNITS_MS, format_duration
from idlestate.retention.policy import MIN_GAP_MS

_MINUTE_MS, _HOUR_MS, _DAY_MS = UNITS_MS["m"], UNITS_MS["h"], UNITS_MS["d"]


@dataclass(frozen=True, slots=True)
class SuggestedPolicy:
    """A policy for a configuration file.

    Attributes:
        name: its name in the file.
        idle_min_ms: the minimum time that an idle key is kept.
        idle_max_ms: the maximum time that an idle key is kept.
        because: the reason for the choice.
        yaml: a configuration file with only this policy.
    """

    name: str
    idle_min_ms: int
    idle_max_ms: int
    because: str
    yaml: str


def suggest_policy(
    key: tuple[str, ...],
    knee: Knee,
    targets: tuple[ReturningTarget, ...],
    budget: KeyBudget | None,
    span_ms: int,
) -> SuggestedPolicy | None:
    """The suggested policy; None for a log of a few seconds without a budget.

    Its min is the window at the knee; without a knee, the window for the smallest share of
    returning keys that the log is long enough for; otherwise a third of the log's span. Its max is
    1.5 times the min, and within the key budget.
    """
    wanted = _wanted(knee, targets, span_ms)
    most_ms = budget.window_ms if budget else None
    if wanted is None and most_ms is None:
        return None
    if wanted is not None and (most_ms is None or _max_of(wanted[0]) <= most_ms):
        low_ms, because = wanted
        high_ms = _max_of(low_ms)
    else:
        assert budget is not None
        assert most_ms is not None
        high_ms = max(_rounded_down(most_ms), 3)
        low_ms = max(_rounded_down(high_ms * 2 // 3), 2)
        because = f"the longest window for a budget of {budget.keys:,} keys"
    name = _name(key)
    return SuggestedPolicy(name, low_ms, high_ms, because, _yaml(name, low_ms, high_ms, because))


def _wanted(
    knee: Knee, targets: tuple[ReturningTarget, ...], span_ms: int
) -> tuple[int, str] | None:
    """A min, and the reason for its choice."""
    if knee.window_ms is not None:
        return _rounded_up(knee.window_ms), "the knee of the curve"
    usable = [target for target in targets if not target.is_censored]
    if usable:
        best = min(usable, key=lambda target: target.share)
        why = f"no knee; the smallest window for {best.share:.0%} returning keys"
        return _rounded_up(best.window_ms), why
    longest_ms = _rounded_down(span_ms // CENSORED_SHARE)
    if not longest_ms:
        return None
    return longest_ms, "no knee; the longest window that a log this short can judge"


def _max_of(low_ms: int) -> int:
    return max(low_ms + low_ms // 2, low_ms + MIN_GAP_MS)


def _step(window_ms: int) -> int:
    """The step to which a window is rounded for people."""
    for longer_than_ms, step_ms in (
        (10 * _DAY_MS, _DAY_MS),
        (_DAY_MS, _HOUR_MS),
        (4 * _HOUR_MS, 10 * _MINUTE_MS),
        (10 * _MINUTE_MS, _MINUTE_MS),
    ):
        if window_ms > longer_than_ms:
            return step_ms
    return 1000


def _rounded_up(window_ms: int) -> int:
    step = _step(window_ms)
    return -(-window_ms // step) * step


def _rounded_down(window_ms: int) -> int:
    step = _step(window_ms)
    return window_ms // step * step


def _name(key: tuple[str, ...]) -> str:
    """A name that configuration files accept."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", "-".join(key)).strip("-_")
    return f"idle-{plain}"[:60].rstrip("-_")


def _yaml(name: str, low_ms: int, high_ms: int, because: str) -> str:
    low, high = format_duration(low_ms), format_duration(high_ms)
    lines = [
        *("version: 1", "", "policies:"),
        f"  {name}:  # {because}",
        f"    idle: {{min: {low}, max: {high}}}",
    ]
    if high_ms - low_ms < MIN_GAP_MS:
        lines.append(f"    min_gap: {format_duration(high_ms - low_ms)}")
    return "\n".join(lines) + "\n"
