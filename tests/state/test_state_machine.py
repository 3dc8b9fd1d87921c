"""Random lives of keyed state: short here, a million steps as `make fuzz`."""

import os
import time
from itertools import cycle, groupby

import pytest
from hypothesis import HealthCheck, Phase, settings

from idlestate.state.heap import heap_items
from idlestate.state.heap import values_table as heap_values
from idlestate.state.runs import (
    all_rows,
    runs_items,
    runs_table,
    runs_timers,
    working_set,
)
from tests.lengths import short_and_long
from tests.state.idle_machine import IdleLives
from tests.state.state_machine import KeyedState, machine_of
from tests.state.state_steps import CALLS, TTLS

STEPS = int(os.environ.get("IDLESTATE_FUZZ_STEPS", "0"))
"""Of all tests here together, 0 for the short and the long form."""

SHORT, LONG = 700, 4_000
STEPS_EACH = {SHORT: 45, LONG: 100}
"""Of a life, by the steps of all tests: each rule has its lives in both forms."""

TOLD_EVERY_S = 15

CASES_A_RUN = 5
"""Hypothesis varies what it has after the tenth case of a run; new cases find more."""

RULES = [
    list(ttls) for _, ttls in groupby(TTLS, lambda ttl: ttl and (ttl.update_type, ttl.visibility))
]


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    """The few keys of a machine go the way that thousands go."""
    monkeypatch.setattr(heap_values, "FRONT", 2)
    for module in (heap_values, heap_items):
        monkeypatch.setattr(module, "SMALL", 3)
    monkeypatch.setattr(working_set, "MOST_ROWS", 5)
    monkeypatch.setattr(all_rows, "AT_ONCE", 3)
    monkeypatch.setattr(runs_timers, "AHEAD", 2)
    monkeypatch.setattr(runs_table, "LOADED", 3)
    monkeypatch.setattr(runs_items, "CELL_BYTES", 30)


@short_and_long("steps", SHORT, LONG)
@pytest.mark.parametrize("kind", sorted(CALLS))
def test_backends_do_what_the_model_does(kind, steps, capsys):
    """As many lives of every update type and visibility."""
    machines = [machine_of(kind, ttls) for ttls in RULES]
    live(KeyedState, machines, steps, 0.9 / len(CALLS), capsys)


@short_and_long("steps", SHORT, LONG)
def test_idle_retention_ends_what_the_model_ends(steps, capsys):
    live(IdleLives, [IdleLives], steps, 0.1, capsys)


def live(counter, machines, steps, share, capsys):
    """Run machines in turn until they took their share of the steps."""
    wanted, told = round((STEPS or steps) * share), time.perf_counter()
    counter.taken, begun = 0, told
    for machine in cycle(machines):
        if counter.taken >= wanted:
            break
        machine.TestCase.settings = settings(
            max_examples=CASES_A_RUN if STEPS else 2,
            stateful_step_count=STEPS_EACH[LONG if STEPS else steps],
            phases=[Phase.generate, Phase.shrink],
            database=None,
            derandomize=settings().derandomize and not STEPS,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        )
        machine.TestCase().runTest()
        now = time.perf_counter()
        if STEPS and (now > told + TOLD_EVERY_S or counter.taken >= wanted):
            told, rate = now, counter.taken / (now - begun)
            with capsys.disabled():
                print(f"{counter.taken:,} of {wanted:,} steps, {rate:,.0f}/s", flush=True)
