"""Batches that use every kind of state and timers in runs, and what is there after them."""

import pyarrow as pa

from idlestate.retention.policy import TimeDomain
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

LONG = pa.int64()
KEYS = [f"key {number}" for number in range(200)]
COUNT = len(KEYS)


def states(backend):
    return (
        backend.get_state(ValueStateDescriptor(name="v", value_type=LONG)),
        backend.get_state(ValueStateDescriptor(name="w", value_type=pa.string())),
        backend.get_state(ListStateDescriptor(name="l", value_type=LONG)),
        backend.get_state(MapStateDescriptor(name="m", key_type=pa.string(), value_type=LONG)),
        backend.get_state(
            ReducingStateDescriptor(name="r", value_type=LONG, reduce=lambda a, b: a + b)
        ),
    )


def timers_of(backend):
    return backend.timer_service("t", lambda timer: None, lambda timer: None)


def use_everything(backend, number):
    value, word, items, entries, total = states(backend)
    value.get_many(KEYS)
    value.put_many(KEYS, [number] * COUNT)
    word.put_many(KEYS, [str(number)] * COUNT)
    items.add_many(KEYS, [number] * COUNT)
    entries.put_many(KEYS, ["x"] * COUNT, [number] * COUNT)
    total.add_many(KEYS, [1] * COUNT)
    timers_of(backend).register_many(TimeDomain.EVENT, KEYS, None, [number] * COUNT)


def found(backend):
    value, word, items, entries, total = states(backend)
    return (
        set(value.get_many(KEYS).to_pylist()),
        set(word.get_many(KEYS).to_pylist()),
        {tuple(each or ()) for each in items.get_many(KEYS).to_pylist()},
        set(entries.get_many(KEYS, ["x"] * COUNT).to_pylist()),
        set(total.get_many(KEYS).to_pylist()),
        timers_of(backend).count(TimeDomain.EVENT),
    )


AFTER_1_AND_2 = ({2}, {"2"}, {(1, 2)}, {2}, {2}, 2 * COUNT)


def two_commits(place):
    """A folder with two commits."""
    with open_backend("runs", place) as backend:
        for number in (1, 2):
            use_everything(backend, number)
            backend.commit()
    return place
