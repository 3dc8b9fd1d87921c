"""A sidecar is ready when it accepts every call, and says why it is not."""

import json
from dataclasses import dataclass

import pytest

from idlestate.sidecar.server.health import Health


@dataclass
class Store:
    is_broken: bool = False


@dataclass
class Workers:
    up: int


@pytest.mark.parametrize(
    ("is_serving", "is_broken", "up", "problem"),
    [
        (True, False, None, None),
        (True, False, 3, None),
        (False, False, 3, "it is starting or stopping"),
        (True, True, None, "it cannot write to its disk"),
        (True, False, 2, "1 of 3 workers are restarting or cannot write"),
        (True, False, 0, "3 of 3 workers are restarting or cannot write"),
    ],
)
def test_it_is_ready_when_it_accepts_every_call(
    is_serving: bool, is_broken: bool, up: int | None, problem: str | None
) -> None:
    workers = None if up is None else Workers(up)
    health = Health(Store(is_broken), workers, 1 if workers is None else 3)
    assert health.readyz().status == 503
    health.is_serving = is_serving
    reply = health.readyz()
    assert health.problem == problem
    if problem is None:
        assert (reply.status, reply.body) == (200, b"ready\n")
    else:
        assert (reply.status, json.loads(reply.body)["error"]) == (503, f"not ready: {problem}")
    assert health.healthz().status == 200  # it is alive, so a restart would not help
