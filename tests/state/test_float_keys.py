"""Floats as keys: by their bytes, whether they are in dicts or in columns."""

import math
import struct

import numpy as np
import pyarrow as pa
import pytest

from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from idlestate.state.errors import NullValueError, StateTypeError

NANS = [math.nan, float("nan"), -float("nan"), struct.unpack(">d", b"\xff\xf8\0\0\0\0\0\1")[0]]
LONG = 20  # a batch that goes by columns


@pytest.fixture(params=["heap", "rocksdb", "runs"])
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


PAIRS = pa.struct([("at", pa.float64()), ("in", pa.struct([("deep", pa.float32())]))])


@pytest.mark.parametrize("place", ["heap", "rocksdb", "runs"])
def test_floats_inside_structs_are_told_apart_alike(place, tmp_path):
    keys = [(nan, (0.5,)) for nan in NANS] + [(0.0, (0.5,)), (-0.0, (0.5,)), (1.0, (-0.0,))]
    wanted = [3, 3, 3, 3, 4, 5, 6]
    path = None if place == "heap" else tmp_path / "db"
    with open_backend(place, path, key_type=PAIRS) as backend:
        values = backend.get_state(ValueStateDescriptor(name="v", value_type=pa.int64()))
        entries = backend.get_state(
            MapStateDescriptor(name="m", key_type=PAIRS, value_type=pa.int64())
        )
        for number, key in enumerate(keys):
            backend.set_current_key(key)
            values.update(number)
            backend.set_current_key(keys[-1])
            entries.put(key, number)
        found = []
        for key in keys:
            backend.set_current_key(key)
            found.append(values.value())
        assert found == wanted
        assert values.get_many(keys).to_pylist() == wanted
        assert values.get_many(keys * LONG).to_pylist() == wanted * LONG
        backend.set_current_key(keys[-1])
        assert [entries.get(key) for key in keys] == wanted
        assert entries.get_many([keys[-1]] * len(keys), keys).to_pylist() == wanted
        assert backend.size("v") == 4


def test_a_struct_of_other_fields_is_no_key():
    with open_backend("heap", key_type=PAIRS) as backend:
        with pytest.raises(StateTypeError, match="is not a valid key"):
            backend.set_current_key((1.0,))
        with pytest.raises(NullValueError):
            backend.set_current_key(None)
