"""What a sidecar does by itself between calls: sweeps, by turns and within their budget."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from idlestate.config.sidecar_settings import Sidecar as Settings
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DamagedDirectoryError
from idlestate.sidecar.server.job_scheduler import Scheduler
from idlestate.sidecar.server.operator_snapshot import OperatorSnapshot
from idlestate.sidecar.server.sweep_and_cleanup_jobs import Background
from idlestate.timers.steady_clock import SteadyClock
from tests.sidecar.expiry_lag import lag_ms
from tests.sidecar.sidecar_world import (
    KEYS,
    RULE,
    SPEC,
    UID,
    World,
    policy_processing,
)


class SlowClock(SteadyClock):
    """Every step takes a slice."""

    steps = 0

    def monotonic_s(self) -> float:
        self.steps += 1
        return float(self.steps)


class Rests(threading.Event):
    """Never set; what is done while somebody waits for it."""

    def __init__(self, noted: Callable[[float], None]) -> None:
        super().__init__()
        self._noted = noted

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._noted(timeout)
        return False


def test_an_operator_that_is_damaged_keeps_no_other_from_its_sweeps(folder: Path) -> None:

    world = World("heap", folder / "state")
    declaration = Declaration.of("second", SPEC, TimeDomain.PROCESSING, 4)
    world.host.declare(declaration, policy_processing(RULE))
    for uid in (UID, "second"):
        world.operator = world.host[uid]
        world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.store.write({key: None for key, _ in world.store.scan(f"s/{UID}/")})
    world.crash()
    world.clock.advance(RULE.idle_max_ms)
    settings = Settings.model_validate({"directory": str(folder)})
    clock = SteadyClock(world.clock)
    background = Background(world.host, clock, settings, Scheduler().stopping)
    with pytest.raises(DamagedDirectoryError, match=f"s/{UID}/.* is missing"):
        background.sweep()
    assert world.host["second"].sizes().live_keys == 0
    assert world.host["second"].sizes().expired_kept == len(KEYS)
    world.close()


@pytest.mark.parametrize(("late_ms", "rest"), [(0, 3), (60_000, 1)])
def test_a_sweep_that_is_far_behind_rests_for_less(folder: Path, late_ms: int, rest: int) -> None:

    rests: list[float] = []
    world = World("heap", folder / "state")
    world.write("w", 0, "add", [(f"key-{number}", 1) for number in range(8_000)])
    world.clock.advance(RULE.idle_max_ms + late_ms)
    settings = Settings.model_validate({"directory": str(folder)})
    Background(world.host, SlowClock(world.clock), settings, Rests(rests.append)).sweep()
    assert len(rests) > 1
    assert set(rests[:-1]) == {rest * 10 / 1000}
    assert world.operator.sizes().live_keys == 0
    world.close()


def test_operators_are_swept_by_turns_and_the_delay_is_told_meanwhile(folder: Path) -> None:

    world = World("heap", folder / "state")
    declaration = Declaration.of("second", SPEC, TimeDomain.PROCESSING, 4)
    world.host.declare(declaration, policy_processing(RULE))
    for uid in (UID, "second"):
        world.operator = world.host[uid]
        world.write("w", 0, "add", [(f"key-{number}", 1) for number in range(8_000)])
    world.clock.advance(RULE.idle_max_ms + 1)
    seen: list[tuple[int, int, int]] = []

    def look(_: float) -> None:
        live = [world.host[uid].sizes().live_keys for uid in (UID, "second")]
        seen.append((live[0], live[1], lag_ms(world, asked)))

    settings = Settings.model_validate({"directory": str(folder)})
    asked = OperatorSnapshot(world.host)
    Background(world.host, SlowClock(world.clock), settings, Rests(look)).sweep()
    assert seen[1][0] < 8_000
    assert seen[1][1] < 8_000
    assert all(behind == (1 if one or two else 0) for one, two, behind in seen)
    assert lag_ms(world, asked) == 0
    assert [world.host[uid].sizes().live_keys for uid in (UID, "second")] == [0, 0]
    world.close()


def test_what_a_long_sweep_closes_is_given_back_while_it_goes_on(folder: Path) -> None:

    world = World("heap", folder / "state")
    for number in range(8):
        world.write("w", number, "add", [(f"{number}-{at}", 1) for at in range(2_000)])
        world.clock.advance(10)
    world.clock.advance(RULE.idle_max_ms)
    before = [shard.current.rows for shard in world.operator.state.shards]
    given_back = []

    def look(_: float) -> None:
        for rows, shard in zip(before, world.operator.state.shards, strict=True):
            given_back.append(shard.current.live > 0 and shard.current.rows < rows)

    settings = Settings.model_validate({"directory": str(folder)})
    Background(world.host, SlowClock(world.clock), settings, Rests(look)).sweep()
    assert any(given_back)
    world.close()
