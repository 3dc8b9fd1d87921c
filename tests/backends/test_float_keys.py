"""Floats as keys: by their bytes, whether they are in dicts or in columns."""

import math
import struct

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.keyed.descriptors import MapStateDescriptor, ValueStateDescriptor
from idlestate.backends.keyed.opening import open_backend

NANS = [math.nan, float("nan"), -float("nan"), struct.unpack(">d", b"\xff\xf8\0\0\0\0\0\1")[0]]
LONG = 20  # a batch that goes by columns


@pytest.fixture(params=["heap", "rocksdb"])
def backend(request, tmp_path):
    place = None if request.param == "heap" else tmp_path / "db"
    with open_backend(request.param, place, key_type=pa.float64()) as opened:
        yield opened


def test_every_nan_is_one_key_and_the_zeros_are_two(backend):
    state = backend.get_state(ValueStateDescriptor(name="v", value_type=pa.int64()))
    for number, key in enumerate([*NANS, 0.0, -0.0]):
        backend.set_current_key(key)
        state.update(number)

    def found():
        values = []
        for key in (*NANS, 0.0, -0.0):
            backend.set_current_key(key)
            values.append(state.value())
        return values

    assert found() == [3, 3, 3, 3, 4, 5]
    assert state.get_many([*NANS, 0.0, -0.0]).to_pylist() == [3, 3, 3, 3, 4, 5]
    assert state.get_many(np.array([*NANS, -0.0] * LONG)).to_pylist() == [3, 3, 3, 3, 5] * LONG
    assert found() == [3, 3, 3, 3, 4, 5]
    assert backend.size("v") == 3


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_in_maps_as_well(backend, kind):
    state = backend.get_state(MapStateDescriptor(name="m", key_type=kind, value_type=pa.int64()))
    backend.set_current_key(1.0)
    inside = [math.nan, 0.0, -0.0, 0.1]
    for number, each in enumerate(inside):
        state.put(each, number)
    for _ in range(2):
        assert [state.get(each) for each in (float("nan"), *inside)] == [0, 0, 1, 2, 3]
        assert all(state.contains(each) for each in inside)
        keys, others = [1.0] * 4 * LONG, inside * LONG
        assert state.get_many(keys, others).to_pylist() == [0, 1, 2, 3] * LONG
    state.remove(-0.0)
    state.remove(float("nan"))
    state.remove(0.1)
    assert list(state.values()) == [1]
