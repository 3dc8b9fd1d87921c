"""The reference itself, by hand-worked examples: what it says has to follow from the rule alone."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import (
    FOREVER_MS,
    ON_READ_AND_WRITE,
    Record,
    Reference,
    Rule,
)

IDLE = Rule(idle_min_ms=30, idle_max_ms=45)
KEY = ("k",)


def write(t_ms, **values):
    return Record(KEY, t_ms, values)


def look(t_ms):
    return Record(KEY, t_ms, read=True)


def run(rule, *records, aggregates=None, sweep=None):
    reference = Reference(rule, aggregates or {"n": "count"})
    for record in records:
        reference.take(record)
    if sweep is not None:
        reference.sweep(sweep)
    return reference


def ends(reference):
    return [(row.created_at, row.expired_at, row.reason) for row in reference.expired]


@pytest.mark.parametrize("name", ["reference", "reference_values", "reference_pipeline"])
def test_reference_shares_nothing_with_the_library(name):
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in names:
            assert module.split(".")[0] not in {"idlestate", "numpy", "pyarrow", "pandas"}


# ---------------------------------------------------------------- the idle rule


def test_an_access_at_the_edge_of_min_leaves_the_cleanup_time_alone():
    reference = run(IDLE, write(100), write(115))
    assert reference.states()[KEY].cleanup_at == 145
    assert reference.states()[KEY].armed_at == 100


def test_an_access_one_past_the_edge_arms_again():
    state = run(IDLE, write(100), write(116)).states()[KEY]
    assert (state.armed_at, state.cleanup_at) == (116, 161)


@pytest.mark.parametrize(("sweep", "closed"), [(144, False), (145, True), (146, True)])
def test_a_life_ends_at_its_deadline_not_before(sweep, closed):
    assert ends(run(IDLE, write(100), sweep=sweep)) == ([(100, 145, "idle")] if closed else [])


@pytest.mark.parametrize(("t_ms", "lives"), [(144, 1), (145, 2), (146, 2)])
def test_a_write_at_the_deadline_begins_the_next_life(t_ms, lives):
    assert run(IDLE, write(100), write(t_ms)).counts["created"] == lives


@pytest.mark.parametrize("minimum", [0, 1])
def test_idle_rule_is_off_up_to_a_min_of_one(minimum):
    reference = run(Rule(idle_min_ms=minimum, idle_max_ms=100), write(1), sweep=10**9)
    state = reference.states()[KEY]
    assert (state.armed_at, state.cleanup_at, state.deadline, state.reason) == (None,) * 4


def test_without_slack_every_later_access_arms_again():
    rule = Rule(idle_min_ms=10, idle_max_ms=10)
    state = run(rule, write(0), write(0), write(1)).states()[KEY]
    assert (state.armed_at, state.cleanup_at) == (1, 11)


@given(
    st.integers(2, 20),
    st.integers(0, 20),
    st.lists(st.integers(0, 30), min_size=1, max_size=30),
)
def test_while_the_policy_stays_the_formula_for_changes_gives_the_same(minimum, slack, gaps):
    rule = Rule(idle_min_ms=minimum, idle_max_ms=minimum + slack)
    reference = Reference(rule, {})
    t_ms = 0
    for gap in gaps:
        t_ms += gap
        reference.take(Record(KEY, t_ms))
        before = reference.states()[KEY]
        reference.change_rule(rule)
        assert reference.states()[KEY] == before
        assert before.deadline is not None
        assert t_ms + minimum <= before.deadline <= t_ms + rule.idle_max_ms


# ---------------------------------------------------------------- ttl, lifetime, ties


def test_ttl_counts_from_the_last_write_only():
    rule = Rule(ttl_ms=10)
    assert run(rule, write(0), look(9), sweep=10).counts["ttl"] == 1
    assert run(rule, write(0), write(9), sweep=10).counts["ttl"] == 0


def test_ttl_counts_from_reads_when_told_so():
    rule = Rule(ttl_ms=10, ttl_update=ON_READ_AND_WRITE)
    assert run(rule, write(0), look(9)).states()[KEY].deadline == 19


def test_lifetime_counts_from_creation_whatever_happens():
    rule = Rule(max_lifetime_ms=10)
    reference = run(rule, write(0), write(9), write(10))
    assert ends(reference) == [(0, 10, "lifetime")]
    assert reference.states()[KEY].created_at == 10


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (Rule(idle_min_ms=5, idle_max_ms=10, ttl_ms=10, max_lifetime_ms=10), "lifetime"),
        (Rule(idle_min_ms=5, idle_max_ms=10, ttl_ms=10), "ttl"),
        (Rule(idle_min_ms=5, idle_max_ms=10, max_lifetime_ms=10), "lifetime"),
        (Rule(idle_min_ms=5, idle_max_ms=10, ttl_ms=11, max_lifetime_ms=11), "idle"),
    ],
)
def test_ties_name_lifetime_before_ttl_before_idle(rule, reason):
    assert ends(run(rule, write(0), sweep=10)) == [(0, 10, reason)]


def test_sums_saturate():
    rule = Rule(idle_min_ms=FOREVER_MS, idle_max_ms=FOREVER_MS)
    assert run(rule, write(5)).states()[KEY].deadline == FOREVER_MS


# ---------------------------------------------------------------- reads and time


def test_a_read_moves_the_idle_end_only_when_it_counts():
    assert run(IDLE, write(0), look(40)).states()[KEY].deadline == 45
    rule = Rule(idle_min_ms=30, idle_max_ms=45, update=ON_READ_AND_WRITE)
    assert run(rule, write(0), look(40)).states()[KEY].deadline == 85


def test_a_read_of_an_ended_life_leaves_no_trace_and_closes_nothing():
    reference = run(IDLE, write(0), look(45))
    assert reference.expired == []
    assert reference.states()[KEY].read_at is None


def test_a_read_creates_nothing():
    assert run(IDLE, look(5)).states() == {}


def test_time_of_a_key_never_runs_back():
    state = run(IDLE, write(100), look(120), write(90)).states()[KEY]
    assert (state.written_at, state.read_at) == (120, 120)


def test_a_record_closes_a_life_that_had_ended_by_its_clamped_time():
    rule = Rule(max_lifetime_ms=50)
    reference = run(Rule(), write(0), write(60))
    reference.change_rule(rule)
    reference.take(write(10))
    assert ends(reference) == [(0, 50, "lifetime")]
    assert reference.states()[KEY].created_at == 60


# ---------------------------------------------------------------- policy changes


def test_longer_windows_keep_a_life_at_most_the_new_max_after_its_access():
    reference = run(IDLE, write(0), write(15))
    reference.change_rule(Rule(idle_min_ms=60, idle_max_ms=70))
    assert reference.states()[KEY].cleanup_at == max(0 + 70, 15 + 60)


def test_shorter_windows_keep_a_life_at_least_the_new_min_after_its_access():
    reference = run(IDLE, write(0), write(15))
    reference.change_rule(Rule(idle_min_ms=2, idle_max_ms=3))
    assert reference.states()[KEY].cleanup_at == 17


def test_a_life_never_armed_counts_as_armed_at_its_last_access_until_one_arms_it():
    reference = run(Rule(), write(0), write(20))
    reference.change_rule(IDLE)
    assert reference.states()[KEY].cleanup_at == 65
    reference.take(look(30))
    assert (reference.states()[KEY].armed_at, reference.states()[KEY].cleanup_at) == (None, 65)
    reference.take(write(31))
    assert (reference.states()[KEY].armed_at, reference.states()[KEY].cleanup_at) == (31, 76)


def test_what_was_closed_stays_closed():
    reference = run(IDLE, write(0), sweep=45)
    reference.change_rule(Rule(idle_min_ms=100, idle_max_ms=200))
    reference.take(write(50))
    assert ends(reference) == [(0, 45, "idle")]
    assert reference.states()[KEY].created_at == 50


# ---------------------------------------------------------------- returning keys and rows


@pytest.mark.parametrize(("t_ms", "returning_keys"), [(90, 1), (91, 0)])
def test_a_returning_key_comes_back_at_most_remember_after_the_last_ones_end(t_ms, returning_keys):
    assert run(IDLE, write(0), write(t_ms)).counts["returning_keys"] == returning_keys


def test_remember_forever():
    rule = Rule(idle_min_ms=30, idle_max_ms=45, remember_ms=FOREVER_MS)
    assert run(rule, write(0), write(10**12)).counts["returning_keys"] == 1


def test_each_life_has_one_last_row():
    reference = run(IDLE, write(0), write(10), write(100), look(110))
    rows = [(row.change, row.created_at, row.last_access) for row in reference.last_rows()]
    assert rows == [("expire", 0, 10), ("update", 100, 100)]
    assert [row.aggregates["n"] for row in reference.last_rows()] == [2, 1]
