"""A changed policy that would remove too many keys of a sidecar at once is refused as a whole."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from idlestate.backends.shards.key_details import KeyState
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.service.cli import main
from idlestate.sidecar.protocol.errors import DoesNotFitError
from idlestate.sidecar.protocol.transfers import stream_of
from tests.sidecar.sidecar_process import POLICIES, UID, Sidecar
from tests.sidecar.sidecar_world import DECLARATION, World

OTHER = replace(DECLARATION, uid="other")


def ttl(ttl_ms: int, **also: Any) -> Policy:
    return Policy(ttl_ms=ttl_ms, time=TimeDomain.PROCESSING, **also)


@pytest.fixture
def aged(world: World) -> World:
    """Keys that are 1 to 10 ms old, under a policy of 15 ms."""
    world.host.declare_all([(DECLARATION, ttl(15, max_shrink=1))])
    for number in range(10):
        world.write("w", number, "add", [(f"{number}", 1)])
        world.clock.advance(1)
    return world


def test_a_reload_that_removes_too_many_keys_changes_no_operator(aged: World) -> None:
    with pytest.raises(DoesNotFitError, match=r"remove 6 of 10 live keys at once \(60%\)"):
        aged.host.declare_all([(OTHER, ttl(5)), (DECLARATION, ttl(5))])
    assert aged.operator.record.policy == ttl(15)
    assert [each.state.uid for each in aged.host] == [DECLARATION.uid]
    assert len(aged.lives()) == 10

    aged.host.declare_all([(OTHER, ttl(5)), (DECLARATION, ttl(5, max_shrink=0.6))])
    assert aged.operator.record.policy == ttl(5)
    aged.sweep()
    assert len(aged.lives()) == 4


def test_half_of_the_keys_may_go(aged: World) -> None:
    aged.host.declare_all([(DECLARATION, ttl(6))])
    aged.sweep()
    assert len(aged.lives()) == 5


def test_a_plan_changes_nothing(aged: World) -> None:
    before = aged.operator.state.now
    plan = aged.operator.plan(ttl(5), aged.clock.now_ms())
    assert aged.operator.state.now is before
    assert (plan.live_keys, plan.horizons[0].new.keys, plan.horizons[1].new.keys) == (10, 6, 10)
    assert plan.refusal is not None


@pytest.mark.parametrize(
    ("key", "after_ms", "state"),
    [
        ("0", 0, KeyState.OPEN),
        ("0", 4, KeyState.OPEN),
        ("0", 5, KeyState.OVERDUE),
        ("never", 0, KeyState.NEVER_SEEN),
    ],
)
def test_a_key_is_explained(aged: World, key: str, after_ms: int, state: KeyState) -> None:
    """Key 0 came 10 ms ago."""
    rows = stream_of(pa.table({aged.operator.state.spec.key_names[0]: [key]}))
    found = aged.operator.explain(rows, aged.clock.now_ms() + after_ms)
    assert found.details.state is state
    aged.clock.advance(after_ms)
    aged.sweep()
    facts = aged.operator.explain(rows, aged.clock.now_ms()).details
    if state is KeyState.OVERDUE:
        assert (facts.state, facts.deadline_ms, facts.reason) == (
            KeyState.GONE,
            aged.clock.now_ms(),
            "ttl",
        )
    else:
        assert facts.state is state


def test_an_explained_key_has_the_version_of_its_policy(aged: World) -> None:
    rows = stream_of(pa.table({aged.operator.state.spec.key_names[0]: ["0"]}))
    before = aged.operator.record.policy_version
    for ttl_ms, version in ((15, before), (20, before + 1)):
        aged.host.declare_all([(DECLARATION, ttl(ttl_ms, max_shrink=1))])
        assert aged.operator.explain(rows, 0).policy_version == version


def test_two_keys_cannot_be_explained_at_once(aged: World) -> None:
    name = aged.operator.state.spec.key_names[0]
    for keys in ([], ["0", "1", "2", "3", "4", "5"]):
        rows = stream_of(pa.table({name: pa.array(keys, pa.string())}))
        with pytest.raises(DoesNotFitError, match="ask for one key"):
            aged.operator.explain(rows, 0)


# ---- as processes


def test_a_start_with_a_policy_that_removes_too_many_keys_is_refused_or_allowed(
    made: Callable[..., Sidecar], monkeypatch: pytest.MonkeyPatch
) -> None:
    sidecar = made().start()
    with sidecar.client() as client:
        client.add_many({"user": ["a", "b"], "amount": [1, 2]})
    assert sidecar.stop() == 0
    monkeypatch.setitem(POLICIES, "carts", {"time": "processing", "ttl": "1ms"})
    sidecar.write_file()
    done = CliRunner().invoke(main, ["serve", str(sidecar.file)])
    assert done.exit_code == 1
    assert "would remove 2 of 2 live keys at once (100%)" in done.output
    assert "max_shrink: 100%" in done.output


def test_commands_ask_a_running_sidecar(made: Callable[..., Sidecar]) -> None:
    sidecar = made().start()
    with sidecar.client() as client:
        client.add_many({"user": ["a", "b"], "amount": [1, 2]})
    place = f"unix:{sidecar.data_socket}"
    done = CliRunner().invoke(
        main, ["plan", str(sidecar.file), "--sidecar", place, "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    (plan,) = json.loads(done.stdout)
    assert (plan["operator"], plan["live_keys"], plan["shrink"]) == (UID, 2, 0)
    words = ["explain", "--operator", UID, "--sidecar", place, "--format", "json", "--key"]
    states = {}
    for key in ("a", "z"):
        done = CliRunner().invoke(main, [*words, key])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        states[key] = found["state"]
        assert found["policy_version"] == 1
    assert states == {"a": "open", "z": "never_seen"}
    assert sidecar.ask(f"/operators/{UID}/explain?user=a")[1]["state"] == "open"
    code, plan = sidecar.ask(f"/operators/{UID}/plan?ttl=1ms")
    assert (code, plan["is_refused"]) == (200, True)
    code, told = sidecar.ask(f"/operators/{UID}/plan?idle=1ms")
    assert code == 400
    assert '"idle" is not a field; use idle_min' in told["error"]
