"""Reads of a client that count as accesses: numbered like writes, and judged like reads."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.reference import Record, Rule
from tests.sidecar.kinds_of_worlds import SHORT_AND_LONG_KINDS
from tests.sidecar.sidecar_world import RULE, World, batch

BOTH = replace(RULE, update="on_read_and_write")


@pytest.mark.parametrize("kind", SHORT_AND_LONG_KINDS)
@pytest.mark.parametrize("rule", [RULE, BOTH, replace(BOTH, ttl_ms=220)])
def test_reads_do_what_the_rule_says_of_reads(tmp_path: Path, kind: str, rule: Rule) -> None:
    world = World(kind, tmp_path / "state", rule)
    for seq in range(12):
        key, now_ms = f"key-{seq % 3}", world.clock.now_ms()
        is_read = seq >= 3
        value = None if is_read else 1
        assert world.write(
            "w", seq, "read" if is_read else "add", [(key, value), ("no", None)][: 1 + is_read]
        )
        world.reference.take(Record((key,), now_ms, {"v": value}, read=is_read))
        if seq % 4 == 0:
            world.crash()
        world.clock.advance(40)
        world.sweep()
        world.reference.batch_id = -1
        world.reference.sweep(world.clock.now_ms())
        world.check()
    assert world.reference.expired or rule == BOTH
    world.close()


@pytest.mark.parametrize("kind", SHORT_AND_LONG_KINDS)
def test_a_read_while_a_batch_is_open_counts_at_its_border(tmp_path: Path, kind: str) -> None:
    world = World(kind, tmp_path / "state", BOTH)
    world.write("w", 0, "add", [("a", 1)])
    world.clock.advance(BOTH.idle_max_ms - 1)
    first = replace(batch(world, 0, "b"), rule=BOTH)
    world.run(first)
    assert world.write("w", 1, "read", [("a", None)])
    assert not world.write("w", 1, "read", [("a", None)])
    world.crash()
    world.clock.advance(1)
    world.settle(first)
    world.sweep()
    lives = {row["key"][0]: row for row in world.lives()}
    assert set(lives) == {"a", "b"}
    assert lives["a"]["n"] == 1
    assert lives["a"]["read_at"] == lives["a"]["written_at"] + BOTH.idle_max_ms - 1
    world.close()
