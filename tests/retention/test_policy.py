"""A policy refuses what no rule can read, resolves its defaults, and survives JSON."""

import json
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.errors import RefusedError
from idlestate.retention.durations import DurationError
from idlestate.retention.durations import format_duration as shown
from idlestate.retention.policy import FOREVER_MS, MIN_GAP_MS, Policy, TimeDomain, UpdateType

SPANS = ("idle_min_ms", "idle_max_ms", "ttl_ms", "max_lifetime_ms", "remember_ms", "min_gap_ms")


def policy_with(name: str, value: object) -> Policy:
    fields: dict[str, Any] = {name: value}
    return Policy(**fields)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    spans = st.integers(0, FOREVER_MS)
    low, high = sorted((draw(spans), draw(spans)))
    return Policy(
        idle_min_ms=low,
        idle_max_ms=high,
        update=draw(st.sampled_from(UpdateType)),
        ttl_ms=draw(spans),
        ttl_update=draw(st.sampled_from(UpdateType)),
        max_lifetime_ms=draw(spans),
        time=draw(st.sampled_from(TimeDomain)),
        remember_ms=draw(st.none() | spans),
        min_gap_ms=0,
    )


@given(policies())
def test_json_gives_the_same_policy_back(policy: Policy) -> None:
    assert Policy.from_json(json.loads(json.dumps(policy.to_json()))) == policy


def test_nothing_is_on_by_default() -> None:
    policy = Policy()
    assert policy.is_unbounded
    assert not policy.idle_on
    assert policy.remember_for_ms == 0
    assert policy.time is TimeDomain.EVENT


@pytest.mark.parametrize(("min_ms", "on"), [(0, False), (1, False), (2, True)])
def test_the_idle_rule_is_on_above_one_millisecond(min_ms: int, on: bool) -> None:
    policy = Policy(idle_min_ms=min_ms, idle_max_ms=600_000, min_gap_ms=0)
    assert policy.idle_on is on
    assert policy.is_unbounded is not on


@pytest.mark.parametrize("rule", ["ttl_ms", "max_lifetime_ms"])
def test_one_rule_bounds_a_policy(rule: str) -> None:
    assert not policy_with(rule, 1).is_unbounded


@pytest.mark.parametrize(
    ("policy", "expected_ms"),
    [
        (Policy(idle_min_ms=2, idle_max_ms=3, ttl_ms=5, max_lifetime_ms=7, min_gap_ms=0), 3),
        (Policy(idle_min_ms=1, idle_max_ms=3, ttl_ms=5, max_lifetime_ms=7), 5),
        (Policy(ttl_ms=5, max_lifetime_ms=7), 5),
        (Policy(max_lifetime_ms=7), 7),
        (Policy(idle_min_ms=2, idle_max_ms=3, remember_ms=0, min_gap_ms=0), 0),
        (Policy(idle_min_ms=2, idle_max_ms=3, remember_ms=FOREVER_MS, min_gap_ms=0), FOREVER_MS),
    ],
)
def test_remembering_falls_back_from_max_to_ttl_to_lifetime(
    policy: Policy, expected_ms: int
) -> None:
    assert policy.remember_for_ms == expected_ms


def test_durations_are_text_or_timedelta() -> None:
    policy = Policy(idle_min="30m", idle_max=timedelta(minutes=45), remember="forever")
    assert policy == Policy(idle_min_ms=1_800_000, idle_max_ms=2_700_000, remember_ms=FOREVER_MS)
    assert replace(policy, ttl="1d") == replace(policy, ttl_ms=86_400_000)
    narrow = Policy(idle_min="2m", idle_max="3m", max_lifetime="2h30m", min_gap="1m")
    assert (narrow.max_lifetime_ms, narrow.min_gap_ms) == (9_000_000, 60_000)


@pytest.mark.parametrize("name", [name.removesuffix("_ms") for name in SPANS])
@pytest.mark.parametrize("value", [30, 1.5, True, "30", "soon", "10 minutes", timedelta(-1), []])
def test_other_durations_are_refused_with_a_fix(name: str, value: object) -> None:
    with pytest.raises(DurationError, match=rf"^{name}: .*; (use|add)"):
        policy_with(name, value)


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize("value", [-1, FOREVER_MS + 1, 1.0, True, "1"])
def test_a_span_is_an_int_within_64_bits(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        policy_with(name, value)


@pytest.mark.parametrize("name", [name for name in SPANS if name != "idle_min_ms"])
def test_the_largest_span_is_allowed(name: str) -> None:
    assert getattr(policy_with(name, FOREVER_MS), name) == FOREVER_MS


def test_a_max_below_the_min_is_refused() -> None:
    assert Policy(idle_min_ms=2, idle_max_ms=2, min_gap_ms=0).idle_on
    with pytest.raises(
        ValueError, match="idle_max 2ms is less than idle_min 3ms; use at least 5m3ms"
    ):
        Policy(idle_min_ms=3, idle_max_ms=2)
    with pytest.raises(ValueError, match=r"idle_max is missing; .*idle_max='35m' or more"):
        Policy(idle_min="30m")


@pytest.mark.parametrize("gap_ms", [MIN_GAP_MS, 10])
def test_an_idle_window_is_as_wide_as_the_gap(gap_ms: int) -> None:
    lowered = {} if gap_ms == MIN_GAP_MS else {"min_gap_ms": gap_ms}
    narrowest = Policy(idle_min_ms=2, idle_max_ms=2 + gap_ms, **lowered)
    assert narrowest.idle_on
    with pytest.raises(
        ValueError, match=rf"only {shown(gap_ms - 1)} .* idle_max='{shown(2 + gap_ms)}', or"
    ):
        Policy(idle_min_ms=2, idle_max_ms=1 + gap_ms, **lowered)


def test_the_gap_is_not_asked_of_a_rule_that_is_off() -> None:
    assert not Policy(idle_min_ms=1, idle_max_ms=1).idle_on


def test_a_narrow_policy_is_read_back_and_changed_as_it_is() -> None:
    narrow = Policy(idle_min_ms=2, idle_max_ms=2, min_gap_ms=0)
    assert Policy.from_json(narrow.to_json()) == narrow
    assert replace(narrow, ttl_ms=5).idle_max_ms == 2


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("update", UpdateType.ON_READ_AND_WRITE),
        ("ttl_update", UpdateType.ON_READ_AND_WRITE),
        ("time", TimeDomain.PROCESSING),
    ],
)
def test_words_may_be_text(name: str, member: StrEnum) -> None:
    assert getattr(policy_with(name, member.value), name) is member
    for other in ("sometimes", None, 3):
        with pytest.raises(ValueError, match=rf"{name} must be one of .*{member.value}"):
            policy_with(name, other)


@pytest.mark.parametrize(
    "given",
    [
        {"idle_min": "30m", "idle_max": "20m"},
        {"idle_min": "30m", "idle_max": "30m"},
        {"idle_min": "soon"},
        {"ttl_ms": -1},
        {"max_shrink": 2},
        {"max_shrink": "50%"},
        {"max_shrink": None},
        {"time": "sometimes"},
    ],
)
def test_a_policy_that_cannot_be_is_refused_like_any_other_argument(given: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        Policy(**given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 2"),
        ({"version": True}, "version True"),
        ({"version": None}, "version None"),
        ({"idle": 5}, "unknown idle"),
        ({"update": "on_access"}, "update must be one of"),
        ({"ttl_update": None}, "ttl_update must be one of"),
        ({"time": 3}, "time must be one of"),
        ({"ttl_ms": "5"}, "ttl_ms must be an int"),
    ],
)
def test_json_that_is_not_ours_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Policy.from_json(Policy().to_json() | change)


@pytest.mark.parametrize("name", [name for name in Policy().to_json() if name != "version"])
def test_json_must_be_complete(name: str) -> None:
    data = Policy().to_json()
    del data[name]
    with pytest.raises(ValueError, match=name):
        Policy.from_json(data)


def test_a_ttl_alone_replaces_all_rules_of_a_policy_and_keeps_its_time() -> None:
    base = Policy(idle_min="30m", idle_max="45m", max_lifetime="1d", time=TimeDomain.PROCESSING)
    assert base.with_ttl_alone(3_600_000, "a hint") == Policy(ttl="1h", time=TimeDomain.PROCESSING)
    assert base.with_ttl_alone(0, "a hint").is_unbounded
