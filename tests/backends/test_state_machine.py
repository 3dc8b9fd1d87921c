"""Random lives of keyed state: short here, a million steps as `make fuzz`."""

import os

import pytest
from hypothesis import HealthCheck, settings

from idlestate.backends.keyed import heap_single
from tests.backends.idle_machine import IdleLives
from tests.backends.state_machine import KeyedState

STEPS_EACH = 50
STEPS = int(os.environ.get("IDLESTATE_FUZZ_STEPS", "500"))


@pytest.mark.parametrize("machine", [KeyedState, IdleLives])
def test_backends_and_model_agree(machine, monkeypatch):
    # The few keys of a machine go the way that thousands go.
    monkeypatch.setattr(heap_single, "FRONT", 2)
    monkeypatch.setattr(heap_single, "SMALL", 3)
    machine.TestCase.settings = settings(
        max_examples=max(STEPS // STEPS_EACH, 1),
        stateful_step_count=STEPS_EACH,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    machine.TestCase().runTest()
