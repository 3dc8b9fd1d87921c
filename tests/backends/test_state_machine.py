"""Random lives of keyed state: short here, a million steps as `make fuzz`."""

import os
import time

import pytest
from hypothesis import HealthCheck, Phase, settings

from idlestate.backends.keyed import heap_single
from tests.backends.idle_machine import IdleLives
from tests.backends.state_machine import KeyedState

STEPS = int(os.environ.get("IDLESTATE_FUZZ_STEPS", "0"))
STEPS_SHORT = 4_000
STEPS_EACH = 200
CASES_A_ROUND = 100
"""Hypothesis remembers all cases of a round, and a round tells how far it came."""


@pytest.mark.parametrize(("machine", "share"), [(KeyedState, 0.9), (IdleLives, 0.1)])
def test_backends_and_model_agree(machine, share, monkeypatch, capsys):
    # The few keys of a machine go the way that thousands go.
    monkeypatch.setattr(heap_single, "FRONT", 2)
    monkeypatch.setattr(heap_single, "SMALL", 3)
    wanted, begun = round((STEPS or STEPS_SHORT) * share), time.perf_counter()
    machine.taken = 0
    while machine.taken < wanted:
        cases = -(-(wanted - machine.taken) // STEPS_EACH)
        machine.TestCase.settings = settings(
            max_examples=min(cases, CASES_A_ROUND),
            stateful_step_count=STEPS_EACH,
            phases=[Phase.generate, Phase.shrink],
            database=None,
            derandomize=settings().derandomize and not STEPS,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
        )
        machine.TestCase().runTest()
        if STEPS:
            rate = machine.taken / (time.perf_counter() - begun)
            with capsys.disabled():
                print(f"{machine.__name__}: {machine.taken:,} of {wanted:,} steps, {rate:,.0f}/s")
