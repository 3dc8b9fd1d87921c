"""Calls on large lists and maps, each of which uses one entry of many."""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from idlestate.state.backend import KeyedStateBackend
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import ListStateDescriptor, MapStateDescriptor
from idlestate.state.list_state import ListState
from idlestate.state.map_state import MapState
from state_contestants import LONG

BATCH = 100_000
ROUNDS = 5
MAPS, LISTS, CLEARED = 1_000, 100, 100

Call = Callable[[MapState, ListState, int], Any]


def large_items(kind: Any, folder: Path, size: int) -> Iterator[tuple[str, float]]:
    """What a batch does, and its processor time (ms) with the commit.

    Args:
        kind: the backend.
        folder: for its files.
        size: entries of a map; a list has ten times as many elements.
    """
    calls: dict[str, Call] = {
        f"put into each of {MAPS:,} maps of {size:,}": _put,
        f"get from each of {MAPS:,} maps of {size:,}": _get,
        f"append to each of {LISTS:,} lists of {10 * size:,}": _append,
    }
    with open_backend(kind, None if kind == "heap" else folder / kind / "large") as backend:
        states = _filled(backend, size)
        for name, call in calls.items():
            yield name, statistics.median(_ms(backend, states, call, at) for at in range(ROUNDS))
        yield f"clear {CLEARED:,} maps of {size:,}", _ms(backend, states, _clear, 0)


def _ms(
    backend: KeyedStateBackend, states: tuple[MapState, ListState], call: Call, at: int
) -> float:
    start = time.process_time()
    call(*states, at)
    backend.commit()
    return (time.process_time() - start) * 1000


def _filled(backend: KeyedStateBackend, size: int) -> tuple[MapState, ListState]:
    """The states of keys with so many entries, and ten times as many elements."""
    entries = backend.get_state(
        MapStateDescriptor(name="large m", key_type=pa.string(), value_type=LONG)
    )
    elements = backend.get_state(ListStateDescriptor(name="large l", value_type=LONG))
    inside = [_item(at) for at in range(size)]
    keys_at_once = max(BATCH // size, 1)
    for first in range(0, MAPS, keys_at_once):
        keys = _keys(MAPS)[first : first + keys_at_once]
        each = [key for key in keys for _ in inside]
        entries.put_many(each, inside * len(keys), pa.array(range(len(each)), LONG))
        backend.commit()
    for _ in range(10):
        each = [key for key in _keys(LISTS) for _ in inside]
        elements.add_many(each, pa.array(range(len(each)), LONG))
        backend.commit()
    return entries, elements


def _keys(count: int) -> list[str]:
    return [f"customer-{number:011d}" for number in range(count)]


def _item(at: int) -> str:
    return f"item-{at:06d}"


def _put(entries: MapState, _: ListState, at: int) -> None:
    entries.put_many(_keys(MAPS), [_item(at)] * MAPS, pa.array(range(MAPS), LONG))


def _get(entries: MapState, _: ListState, at: int) -> None:
    entries.get_many(_keys(MAPS), [_item(at)] * MAPS)


def _append(_: MapState, elements: ListState, at: int) -> None:
    elements.add_many(_keys(LISTS), pa.array([at] * LISTS, LONG))


def _clear(entries: MapState, _: ListState, __: int) -> None:
    entries.remove_many(_keys(CLEARED))
