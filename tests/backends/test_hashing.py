"""Hashes of many keys at once are those of the library, one by one."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from idlestate.backends.runs.key_hashes import SEED, hash_keys
from idlestate.backends.runs.xxh64 import xxh64

MANY = 200


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 7, 8, 11, 12, 20, 31, 32, 33, 39, 64, 100])
def test_every_length_is_hashed_as_by_the_library(length: int) -> None:
    draw = np.random.default_rng(length)
    data = draw.integers(0, 256, MANY * (length + 1), dtype=np.uint8)
    starts = draw.integers(0, len(data) - length, MANY)
    seeds = draw.integers(0, 2**64, MANY, dtype=np.uint64)
    expected = [
        xxhash.xxh64_intdigest(data[at : at + length].tobytes(), seed)
        for at, seed in zip(starts.tolist(), seeds.tolist(), strict=True)
    ]
    values = data[starts[:, None] + np.arange(length)]
    assert xxh64(values, seeds).tolist() == expected


def one_by_one(rows: list[tuple[bytes | None, ...]]) -> list[int]:
    found = []
    for row in rows:
        seed = SEED
        for value in row:
            seed = seed if value is None else xxhash.xxh64_intdigest(value, seed)
        found.append(seed)
    return np.array(found, dtype=np.uint64).view(np.int64).tolist()


@pytest.mark.parametrize("count", [0, 1, 5, 1000])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string()])
def test_texts_of_all_lengths_nulls_and_slices(kind: Any, count: int) -> None:
    draw = np.random.default_rng(count)
    values = [
        None if draw.random() < 0.1 else "x" * int(draw.integers(0, 40)) + str(number)
        for number in range(count + 3)
    ]
    coded = [value if kind != pa.binary() or value is None else value.encode() for value in values]
    column = pa.array(coded, kind).slice(3)
    expected = one_by_one([(None if each is None else each.encode(),) for each in values[3:]])
    assert hash_keys([column]).tolist() == expected


def test_numbers_and_chains_of_columns() -> None:
    numbers = [None if at % 7 == 0 else at * 10**12 for at in range(500)]
    small = [None if at % 5 == 0 else at - 250 for at in range(500)]
    columns = [pa.array(numbers, pa.int64()), pa.array(small, pa.int32())]
    rows: list[tuple[bytes | None, ...]] = []
    for wide, narrow in zip(numbers, small, strict=True):
        absent = (wide is None) + 2 * (narrow is None)
        rows.append(
            (
                None if wide is None else wide.to_bytes(8, "little", signed=True),
                None if narrow is None else narrow.to_bytes(4, "little", signed=True),
                absent.to_bytes(8, "little"),
            )
        )
    assert hash_keys(columns).tolist() == one_by_one(rows)
