"""Policies of a file as they come out: durations resolved, defaults beneath."""

import pytest

from idlestate.config.loading import parse
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain, UpdateType

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def policy(body: str, defaults: str = "") -> Policy:
    text = f"version: 1\ndefaults: {{{defaults}}}\npolicies: {{a: {{{body}}}}}\n"
    return parse(text.encode()).policy("a")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", Policy()),
        ("idle: {min: 30m, max: 45m}", Policy(idle_min_ms=30 * MINUTE, idle_max_ms=45 * MINUTE)),
        ("idle: {min: 30m, max: 35m}", Policy(idle_min_ms=30 * MINUTE, idle_max_ms=35 * MINUTE)),
        ("idle: 12h", Policy(idle_min_ms=12 * HOUR, idle_max_ms=18 * HOUR)),
        ("idle: 10m", Policy(idle_min_ms=10 * MINUTE, idle_max_ms=15 * MINUTE)),
        (
            "idle: {min: 2ms, max: 2ms}, min_gap: 0",
            Policy(idle_min_ms=2, idle_max_ms=2, min_gap_ms=0),
        ),
        ("idle: 3ms, min_gap: 1ms", Policy(idle_min_ms=3, idle_max_ms=4, min_gap_ms=0)),
        ("idle: never", Policy()),
        ("idle: 0", Policy()),
        ("idle: {min: 0, max: 0}", Policy()),
        ("idle: {min: 0s, max: 0ms}", Policy()),
        ("ttl: 1d, max_lifetime: 2w", Policy(ttl_ms=DAY, max_lifetime_ms=14 * DAY)),
        ("ttl: never, max_lifetime: never, idle: never", Policy()),
        ("time: processing", Policy(time=TimeDomain.PROCESSING)),
        (
            "ttl: 1d, update: on_read_and_write, ttl_update: on_read_and_write",
            Policy(
                ttl_ms=DAY,
                update=UpdateType.ON_READ_AND_WRITE,
                ttl_update=UpdateType.ON_READ_AND_WRITE,
            ),
        ),
        ("ttl: 1d, remember: 7d", Policy(ttl_ms=DAY, remember_ms=7 * DAY)),
        ("ttl: 1d, remember: forever", Policy(ttl_ms=DAY, remember_ms=FOREVER_MS)),
    ],
)
def test_a_policy(body: str, expected: Policy) -> None:
    assert policy(body) == expected


@pytest.mark.parametrize(
    ("body", "defaults", "expected"),
    [
        ("", "ttl: 1d", Policy(ttl_ms=DAY)),
        ("ttl: never", "ttl: 1d", Policy()),
        ("max_lifetime: 2d", "ttl: 1d", Policy(ttl_ms=DAY, max_lifetime_ms=2 * DAY)),
        ("idle: 1h", "idle: 12h", Policy(idle_min_ms=HOUR, idle_max_ms=HOUR * 3 // 2)),
        ("idle: never", "idle: 12h", Policy()),
        (
            "idle: 5m",
            "min_gap: 2m",
            Policy(idle_min_ms=5 * MINUTE, idle_max_ms=450_000, min_gap_ms=0),
        ),
        ("time: event", "time: processing", Policy()),
        ("ttl: 1d", "remember: forever", Policy(ttl_ms=DAY, remember_ms=FOREVER_MS)),
        ("", "remember: forever", Policy(remember_ms=FOREVER_MS)),
        ("remember: 2d", "ttl: 1d", Policy(ttl_ms=DAY, remember_ms=2 * DAY)),
    ],
)
def test_what_a_policy_leaves_out_comes_from_the_defaults(
    body: str, defaults: str, expected: Policy
) -> None:
    assert policy(body, defaults) == expected
