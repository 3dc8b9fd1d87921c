"""What operators say that they take in the store is what their values take."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.sidecar.sidecar_world import KEYS, RULE, STORES, UID, World, batch


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(request.param, tmp_path / "state")
    yield made
    made.close()


def said(world: World) -> int:
    """All parts together."""
    sizes, (_, shards) = world.operator.sizes(), world.operator.figures()
    parts = ("live_bytes", "live_remembered_bytes", "dead_bytes")
    tables = sum(figures[part] for figures in shards.values() for part in parts)
    return int(tables + sizes.expired_bytes + sizes.prepared_bytes)


def kept(world: World) -> int:
    """The values of tables and of expired records."""
    prefixes = [f"{kind}/{UID}/" for kind in "sxj"]
    return sum(len(value) for each in prefixes for _, value in world.store.scan(each))


def test_the_parts_are_together_what_the_values_take(world: World) -> None:
    chance = np.random.default_rng(5)
    expired = 0
    for at in range(12):
        keys = chance.choice(KEYS, 5, replace=False).tolist()
        world.write("w", at, "add", [(key, 1) for key in keys])
        assert said(world) == kept(world)
        planned = batch(world, at, *KEYS[:3])
        world.run(planned)
        assert world.operator.sizes().prepared_bytes > 0
        assert said(world) == kept(world)
        world.settle(planned)
        assert world.operator.sizes().prepared_bytes == 0
        world.clock.advance(RULE.idle_max_ms // 3 * (at % 4))
        world.sweep()
        world.join()
        assert said(world) == kept(world)
        expired += world.operator.sizes().expired_bytes > 0
    world.crash()
    assert said(world) == kept(world)
    assert expired > 5
    world.operator.trim(world.clock.now_ms())
    assert world.operator.sizes().expired_bytes == 0
    assert said(world) == kept(world)
