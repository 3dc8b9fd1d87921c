"""Numbering byte strings, against a dict; also when the hash is as bad as can be."""

import random

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs import byte_index
from idlestate.backends.runs.byte_hashes import hash_of, hashes_of
from idlestate.backends.runs.byte_index import ABSENT, ByteIndex

LENGTHS = [0, 1, 2, 7, 8, 9, 20, 127, 128, 129, 500]


def strings(chance, count):
    """Few short ones that come again, and ones of all lengths."""
    return [
        b"key %d" % chance.randrange(60)
        if chance.random() < 0.7
        else chance.randbytes(chance.choice(LENGTHS))
        for _ in range(count)
    ]


@pytest.mark.parametrize("size", LENGTHS)
def test_one_hash_is_that_of_many(size):
    chance = random.Random(size)
    keys = [chance.randbytes(size) for _ in range(5)] + [chance.randbytes(3)]
    for space in (0, 1, 7):
        many = hashes_of(pa.array(keys, pa.binary()), space).tolist()
        assert many == [hash_of(key, space) for key in keys]


def test_a_slice_of_an_array_is_hashed_like_its_items():
    keys = pa.array([b"a", b"bb", b"", b"cccccccccc"], pa.binary())
    assert hashes_of(keys[1:3], 0).tolist() == hashes_of(keys, 0).tolist()[1:3]


@pytest.mark.parametrize("bits", [64, 2], ids=["hash", "hash of two bits"])
def test_numbers_are_those_of_a_dict(bits, monkeypatch):
    if bits < 64:
        monkeypatch.setattr(byte_index, "hash_of", lambda data, space: hash_of(data, space) & 3)
        weak = np.uint64(3)
        monkeypatch.setattr(
            byte_index, "hashes_of", lambda each, space: hashes_of(each, space) & weak
        )
    chance, index, model = random.Random(bits), ByteIndex(), {}
    for _ in range(400):
        space, keys = chance.randrange(2), strings(chance, chance.choice([0, 1, 2, 30]))
        array = pa.array(keys, pa.binary())
        found = index.find(array, space)
        assert found.tolist() == [model.get((key, space), ABSENT) for key in keys]
        assert [index.find_one(key, space) for key in keys] == found.tolist()
        match chance.randrange(8):
            case 0 | 1 | 2 | 3:
                numbers, fresh = index.add(array, space)
                was_there = {model[key, space] for key in keys if (key, space) in model}
                assert sorted(fresh.tolist()) == sorted(set(numbers.tolist()) - was_there)
                model.update(zip([(key, space) for key in keys], numbers.tolist(), strict=True))
            case 4 | 5 | 6:
                index.remove(np.unique(found[found != ABSENT]))
                for key in keys:
                    model.pop((key, space), None)
            case _:
                new = {old: number for number, old in enumerate(index.compact().tolist())}
                model = {address: new[number] for address, number in model.items()}
                assert index.count == len(model)
        assert index.live == len(model)
        assert all(index.key(number) == key for (key, _), number in model.items())


def test_a_copy_stays_as_it_was():
    index = ByteIndex()
    index.add(pa.array([b"a", b"b"], pa.binary()), 0)
    copy = index.copy()
    index.remove(np.array([0]))
    index.add(pa.array([b"%d" % each for each in range(100)], pa.binary()), 0)
    assert copy.keys.to_pylist() == [b"a", b"b"]
    assert copy.alive.tolist() == [True, True]


def test_a_key_costs_few_bytes_beside_its_own():
    index = ByteIndex()
    for at in range(0, 200_000, 50_000):
        index.add(pa.array([b"%020d" % each for each in range(at, at + 50_000)]), 0)
    assert index.nbytes / index.live <= 64
