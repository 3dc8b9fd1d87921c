"""The fast oracle says what the slow reference says."""

import random
from typing import Any

import pytest

from tests.oracle.idle_oracle import AGGREGATES, IdleOracle
from tests.reference import FOREVER_MS, Record, Row, Rule, State
from tests.reference_pipeline import play

ORIGIN_MS = 1_500_000_000_000
MIN_MS, MAX_MS, DELAY_MS = 10, 17, 5


@pytest.mark.parametrize("seed", range(20))
def test_fast_oracle_equals_the_reference(seed: int) -> None:
    chance = random.Random(seed)
    times = sorted(ORIGIN_MS + chance.randrange(300) for _ in range(200))
    rows = [
        (("k", chance.randrange(12)), t_ms, chance.randint(-9, 9), chance.choice("abc"))
        for t_ms in times
    ]
    oracle = IdleOracle(MIN_MS, MAX_MS)
    oracle.take(rows[:70])
    oracle.take(rows[70:])
    oracle.sweep(DELAY_MS)

    records = [Record(key, t, {"amount": amount, "label": label}) for key, t, amount, label in rows]
    rule = Rule(idle_min_ms=MIN_MS, idle_max_ms=MAX_MS, remember_ms=FOREVER_MS)
    reference = play([records], rule, AGGREGATES, delay_ms=DELAY_MS).reference
    assert sorted(oracle.ended) == sorted(map(from_row, reference.expired))
    states = [from_state(key, state) for key, state in reference.states().items()]
    assert sorted(oracle.lives) == sorted(states)
    assert oracle.returning_keys == reference.counts["returning_keys"] > 0


def from_row(row: Row) -> tuple[Any, ...]:
    return (row.key, row.created_at, row.last_access, row.expired_at, *row.aggregates.values())


def from_state(key: tuple[Any, ...], state: State) -> tuple[Any, ...]:
    return (key, state.created_at, state.written_at, state.cleanup_at, *state.aggregates.values())
