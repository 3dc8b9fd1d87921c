"""Random lives of keyed state: short here, a million steps as `make fuzz`."""

import os

from hypothesis import HealthCheck, settings

from tests.backends.state_machine import KeyedState

STEPS_EACH = 50
STEPS = int(os.environ.get("IDLESTATE_FUZZ_STEPS", "750"))


def test_backends_and_model_agree():
    KeyedState.TestCase.settings = settings(
        max_examples=max(STEPS // STEPS_EACH, 1),
        stateful_step_count=STEPS_EACH,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    KeyedState.TestCase().runTest()
