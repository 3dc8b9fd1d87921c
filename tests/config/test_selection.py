"""Which policy an operator's state gets: the precedence, step by step, and the loud warning."""

import pytest

from idlestate.config.loading import Config, parse
from idlestate.config.pipeline_settings import Selector
from idlestate.config.policy_selectors import Choice, choose
from idlestate.retention.policy import Policy


def selectors(*patterns: str) -> list[Selector]:
    """Selectors from `operator/state`; each gives the policy p0, p1, ... of its position."""
    return [
        Selector(operator=operator, state=state or "*", policy=f"p{position}")
        for position, pattern in enumerate(patterns)
        for operator, _, state in [pattern.partition("/")]
    ]


@pytest.mark.parametrize(
    ("patterns", "winner"),
    [
        # a name beats a pattern, wherever they stand
        (["clicks-*", "clicks-a"], "p1"),
        (["clicks-a", "clicks-*"], "p0"),
        # more before the first * or ? beats less
        (["*", "cl*", "clicks*", "c*"], "p2"),
        (["clicks-?", "clicks*a"], "p0"),
        (["?licks-a", "c*"], "p1"),
        # the operator is compared before the state
        (["clicks-a/*", "clicks-*/aggregates"], "p0"),
        (["c*/aggregates", "cl*/*"], "p1"),
        # then the state
        (["clicks-*/*", "clicks-*/aggregates"], "p1"),
        (["clicks-a/a*", "clicks-a/agg*"], "p1"),
        (["clicks-*/agg*", "clicks-*/aggregate?"], "p1"),
        # then the order of the file
        (["clicks-*", "clicks-*"], "p0"),
        (["clicks*-a", "clicks*a"], "p0"),
        # what does not match is out
        (["clicks-b", "CLICKS-A", "clicks", "clicks-a/other", "*"], "p4"),
        (["clicks-??", "?"], None),
        ([], None),
    ],
)
def test_precedence(patterns: list[str], winner: str | None) -> None:
    assert choose("clicks-a", "aggregates", None, selectors(*patterns)).policy == winner


def test_the_policy_that_a_pipeline_names_beats_every_selector() -> None:
    choice = choose("clicks-a", "aggregates", "mine", selectors("clicks-a/aggregates"))
    assert choice == Choice("mine", "named by the pipeline")


def test_a_choice_says_why() -> None:
    assert choose("a", "s", None, selectors("b", "*")) == Choice("p1", "selectors[1]")
    assert choose("a", "s", None, []) == Choice(None, "no selector matches: defaults alone")


@pytest.mark.parametrize("evil", ["*" * 63, "*a" * 31, "a*" * 30 + "b"])
def test_a_pattern_takes_no_time_to_speak_of(evil: str) -> None:
    (selector,) = selectors(evil)
    choose("a" * 63, "aggregates", None, [selector])


FILE = """\
version: 1
defaults: {DEFAULTS}
policies:
  short: {ttl: 1h}
  long: {ttl: 1d}
  none: {ttl: never}
selectors:
  - {operator: "clicks-*", policy: short}
  - {operator: "clicks-*", state: "seen*", policy: long}
pipelines:
  UID:
    source: {path: in, format: parquet}
    event_time: event_time
    delay: 0s
    key: [user]
    aggregates: {n: count}
    sinks: {results: out/results}
    checkpoint: out/checkpoint
"""


def config(uid: str, policy: str = "", defaults: str = "") -> Config:
    text = FILE.replace("UID", uid).replace("DEFAULTS", defaults)
    return parse((text + (f"    policy: {policy}\n" if policy else "")).encode(), "f.yaml")


HOUR_POLICY, DAY_POLICY = Policy(ttl_ms=3_600_000), Policy(ttl_ms=86_400_000)


@pytest.mark.parametrize(
    ("policy", "state", "expected"),
    [
        ("", "aggregates", HOUR_POLICY),
        ("", "seen-pages", DAY_POLICY),
        ("long", "aggregates", DAY_POLICY),
        ("none", "seen-pages", Policy()),
    ],
)
def test_policy_for_a_pipeline(policy: str, state: str, expected: Policy) -> None:
    assert config("clicks-a", policy).policy_for("clicks-a", state) == expected


def test_policy_for_operators_that_are_in_no_file() -> None:
    assert config("p").policy_for("clicks-z") == HOUR_POLICY
    assert config("p").policy_for("other") == Policy()
    assert config("p", defaults="ttl: 1d").policy_for("other") == DAY_POLICY


def test_policy_by_name() -> None:
    assert config("p").policy("long") == DAY_POLICY
    with pytest.raises(ValueError, match=r'^f.yaml has no policy "lang"; use long$'):
        config("p").policy("lang")
    with pytest.raises(ValueError, match=r"its policies are short, long, none$"):
        config("p").policy("sessions")


def test_no_warning_for_an_operator_with_a_policy() -> None:
    assert config("clicks-a").warnings == ()
    assert config("p", policy="long").warnings == ()
    assert config("p", defaults="ttl: 1d").warnings == ()


def test_an_operator_without_a_policy_is_warned_about() -> None:
    (warning,) = config("p").warnings
    assert (warning.file, warning.line, warning.field_path) == ("f.yaml", 11, "pipelines.p")
    assert warning.what == (
        "p has no policy: its state grows WITHOUT BOUND, as every key is kept forever"
    )
    assert warning.fix == (
        "add policy: sessions here, and policies: {sessions: {idle: {min: 30m, max: 45m}}} "
        "at the top level"
    )


def test_an_operator_whose_policy_ends_nothing_is_warned_about() -> None:
    (warning,) = config("p", policy="none").warnings
    assert warning.what == (
        "policy none of p has no expiry rule: "
        "its state grows WITHOUT BOUND, as every key is kept forever"
    )
    assert warning.fix == (
        "add idle: {min: 30m, max: 45m}, a ttl or a max_lifetime to policies.none"
    )
