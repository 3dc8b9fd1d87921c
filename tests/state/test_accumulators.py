"""Functions that change accumulators in place, or fail, change nothing that is stored."""

import numpy as np
import pyarrow as pa
import pytest

from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor
from idlestate.state.errors import StateTypeError
from idlestate.timers.clock import FakeClock

INTS = pa.list_(pa.int64())
TTL = StateTtlConfig(ttl_ms=10)
CASES = pytest.mark.parametrize(
    ("keys", "ttl"),
    [(["x", "y"], None), ([f"key {number}" for number in range(40)], TTL)],
    ids=["dicts", "columns with ttl"],
)


class InPlace:
    """Adds to a number in the last list of an accumulator, and changes it in place."""

    def __init__(self, empty, last_list):
        """Functions that make an accumulator, and find its list."""
        self.create_accumulator, self._last_list = empty, last_list

    def add(self, value, accumulator):
        numbers = self._last_list(accumulator)
        numbers[-1] += value
        if value == 13:
            raise ArithmeticError
        return accumulator

    def merge(self, left, right):
        self._last_list(left)[-1] += self._last_list(right)[-1]
        self._last_list(right)[-1] = 0
        return left

    def get_result(self, accumulator):
        return int(self._last_list(accumulator)[-1])


class ListForStruct(InPlace):
    """The same with a list for a struct; some backends return a tuple."""

    def __init__(self):
        super().__init__(lambda: ["a", 0], lambda found: found)

    def add(self, value, accumulator):
        return super().add(value, _as_list(accumulator))

    def merge(self, left, right):
        return super().merge(_as_list(left), _as_list(right))


def _as_list(found):
    return list(found) if isinstance(found, tuple) else found


FORMS = {
    "list": (INTS, InPlace(lambda: [0], lambda found: found)),
    "numpy": (INTS, InPlace(lambda: np.array([0]), lambda found: found)),
    "list for a struct": (pa.struct([("a", pa.string()), ("n", pa.int64())]), ListForStruct()),
    "list in a struct": (
        pa.struct([("a", pa.string()), ("b", INTS), ("c", INTS)]),
        InPlace(lambda: ("a", None, [0]), lambda found: found[2]),
    ),
    "list in a list": (pa.list_(INTS), InPlace(lambda: [None, [0]], lambda found: found[1])),
    "struct in a list": (
        pa.list_(pa.struct([("a", INTS)])),
        InPlace(lambda: [([0],)], lambda found: found[0][0]),
    ),
}


@pytest.fixture(params=["heap", "rocksdb", "runs"])
def backend(request, tmp_path):
    place = None if request.param == "heap" else tmp_path / "db"
    with open_backend(request.param, place, clock=FakeClock(0)) as opened:
        yield opened


@pytest.fixture(params=FORMS)
def descriptor(request, ttl):
    kind, function = FORMS[request.param]
    return AggregatingStateDescriptor(
        name="s", value_type=kind, aggregate=function, result_type=pa.int64(), ttl=ttl
    )


@CASES
def test_a_held_snapshot_keeps_its_accumulators(backend, descriptor, keys, tmp_path):
    state, folder = backend.get_state(descriptor), tmp_path / "snapshot"
    for namespace in ("w", None):
        state.set_current_namespace(namespace)
        state.add_many(keys, [1] * len(keys))
    held = backend.snapshot(folder)
    backend.set_current_key(keys[0])
    state.merge_namespaces(None, ["w"])
    state.add(2)
    state.add_many(keys, [4] * len(keys))
    assert state.get_many(keys).to_pylist() == [8] + [5] * (len(keys) - 1)
    held.finish()
    with open_backend("heap", clock=FakeClock(0), restore=[folder]) as restored:
        state = restored.get_state(descriptor)
        for namespace in ("w", None):
            state.set_current_namespace(namespace)
            assert set(state.get_many(keys).to_pylist()) == {1}


@CASES
def test_an_add_that_fails_changes_nothing(backend, descriptor, keys):
    state = backend.get_state(descriptor)
    state.add_many(keys, [1] * len(keys))
    backend.set_current_key(keys[0])
    for call in (
        lambda: state.add_many(keys, [2] * (len(keys) - 1) + [13]),
        lambda: state.add(13),
    ):
        with pytest.raises(ArithmeticError):
            call()
        assert set(state.get_many(keys).to_pylist()) == {1}


@CASES
@pytest.mark.parametrize(
    ("kind", "good", "bad"), [(pa.string(), "a", 5), (pa.binary(), b"a", "a")], ids=str
)
def test_a_result_of_another_type_changes_nothing(backend, keys, ttl, kind, good, bad):
    state = backend.get_state(
        ReducingStateDescriptor(
            name="s",
            value_type=kind,
            ttl=ttl,
            reduce=lambda _, value: bad if value == bad else value,
        )
    )
    state.add_many(keys, [good] * len(keys))
    with pytest.raises(StateTypeError):
        state.add_many(keys, [good * 2] * (len(keys) - 1) + [bad])
    assert set(state.get_many(keys).to_pylist()) == {good}
