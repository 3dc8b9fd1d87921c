"""Rows in order of hash or of a number, however these are spread and come."""

import numpy as np
import pytest

from idlestate.backends.runs.row_order import order_by_hash, order_of

RNG = np.random.default_rng(8)
SPREAD = RNG.integers(-(2**63), 2**63 - 1, 5_000, endpoint=True)
UPPER = SPREAD[:20] >> 15 << 15
TIES = np.concatenate([SPREAD, *(UPPER + RNG.integers(0, 2**15, 20) for _ in range(3))])
"""Some hashes differ only in bits whose place 20,000 rows take, and each comes several times."""


@pytest.mark.parametrize(
    "hashes",
    [
        SPREAD,
        np.sort(SPREAD),
        np.concatenate([np.sort(SPREAD), np.sort(SPREAD)]),
        SPREAD[RNG.integers(0, 50, 5_000)],
        RNG.integers(-5, 5, 5_000),
        TIES[RNG.integers(0, len(TIES), 20_000)],
        (RNG.integers(-50, 50, 5_000) << 40) + RNG.integers(0, 2**16, 5_000),
        np.array([-(2**63), 2**63 - 1, 0, -1]),
        np.array([], dtype=np.int64),
    ],
    ids=[
        "spread",
        "sorted",
        "two runs",
        "few keys",
        "weak",
        "ties",
        "weak below",
        "corners",
        "none",
    ],
)
def test_rows_are_in_order_of_hash_and_those_of_one_hash_as_they_came(
    hashes: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> None:
    in_turn = sorted(range(len(hashes)), key=lambda row: (int(hashes[row]), row))
    order, ordered = order_by_hash(hashes)
    assert order.tolist() == in_turn
    assert ordered.tolist() == hashes[in_turn].tolist()


@pytest.mark.parametrize("bits", [1, 12, 50, 51, 62])
@pytest.mark.parametrize("turns", ["as drawn", "two runs", "downwards"])
def test_numbers_are_in_order_and_equal_ones_as_they_came(bits: int, turns: str) -> None:
    numbers = RNG.integers(0, 2**bits, 5_000)
    numbers[::7], numbers[5] = numbers[3], 2**bits - 1
    if turns == "two runs":
        numbers = np.concatenate([np.sort(numbers), np.sort(numbers)])
    if turns == "downwards":
        numbers = np.sort(numbers)[::-1].copy()
    in_turn = sorted(range(len(numbers)), key=lambda row: (int(numbers[row]), row))
    assert order_of(numbers, bits).tolist() == in_turn
