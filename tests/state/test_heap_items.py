"""Lists and maps of thousands of keys on heap: they go from dicts into columns and back."""

import numpy as np
import pyarrow as pa
import pytest

from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.heap import frozen_rows, heap_items, heap_keys, item_chains
from idlestate.timers.clock import FakeClock
from tests.state.golden_state import descriptor_of

KEYS = [f"key {number}" for number in range(2_000)]
INSIDE = ["x", "y", "z"]
TTL_MS = 50
TTL = StateTtlConfig(ttl_ms=TTL_MS, cleanup_in_background=False)
STEPS = 60


class Crowd:
    """A state of many keys, and dicts beside it: per key `{place: (value, stamp)}`."""

    def __init__(self, kind, backend, clock):
        self.kind, self.clock, self.backend = kind, clock, backend
        self.state = backend.get_state(descriptor_of(kind, TTL))
        self.expected, self.written = {}, 0

    def single(self, keys, inside):
        for key, each in zip(keys, inside, strict=True):
            self.written += 1
            self.backend.set_current_key(key)
            if self.kind == "map":
                self.state.put(each, self.written)
            else:
                self.state.add(self.written)
            self._note(key, each, self.written)

    def batch(self, keys, inside):
        values = range(self.written + 1, self.written + 1 + len(keys))
        if self.kind == "map":
            self.state.put_many(keys, inside, values)
        else:
            self.state.add_many(keys, values)
        for key, each, self.written in zip(keys, inside, values, strict=True):
            self._note(key, each, self.written)

    def _note(self, key, inside, value):
        place = inside if self.kind == "map" else value
        self.expected.setdefault(key, {})[place] = (value, self.clock.now_ms())

    def remove(self, keys, inside):
        if self.kind == "map":
            self.state.remove_entries(keys, inside)
            for key, each in zip(keys, inside, strict=True):
                self.expected.get(key, {}).pop(each, None)
        else:
            self.clear(keys)

    def clear(self, keys):
        self.state.remove_many(keys)
        for key in keys:
            self.expected.pop(key, None)

    def sweep(self):
        now = self.clock.now_ms()
        while not self.backend.sweep(now, 700).done:
            pass
        self.expected = {
            key: {at: item for at, item in items.items() if item[1] + TTL_MS > now}
            for key, items in self.expected.items()
        }

    def compare(self, state):
        """All that is stored, read in batches and one by one."""
        table, batch = state.table, state.table.batch_of(KEYS)
        stored = [self.expected.get(key, {}) for key in KEYS]
        if self.kind == "list":
            found, at = table.get_many(batch, None), 0
            items, lists = found.items.stored(), []
            for size in found.sizes.tolist():
                lists.append(items[at : at + size])
                at += size
            assert lists == [list(each.values()) for each in stored]
            assert [table.get(key, None) or [] for key in KEYS[::40]] == lists[::40]
            return
        for inside in INSIDE:
            entries = table.layout.user_keys([inside] * len(KEYS))
            found = table.get_many(batch, None, entries).stored()
            assert found == [each.get(inside) for each in stored]
            assert [table.get(key, None, inside) for key in KEYS[::40]] == found[::40]
        assert [
            {each: table.get(key, None, each) for each in table.user_keys(key, None)}
            for key in KEYS[::40]
        ] == stored[::40]


@pytest.mark.parametrize("kind", ["list", "map"])
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)]
)
def test_dicts_and_columns_tell_the_same(kind, seed, monkeypatch, tmp_path):
    monkeypatch.setattr(item_chains, "SPARE", 64)
    for each in (frozen_rows, heap_keys, heap_items):
        monkeypatch.setattr(each, "AT_ONCE", 500)
    chance, clock = np.random.default_rng(seed), FakeClock(0)
    with open_backend("heap", clock=clock) as backend:
        crowd = Crowd(kind, backend, clock)
        for step in range(STEPS):
            clock.advance(3)
            keys = chance.choice(KEYS, chance.choice([1, 20, 900])).tolist()
            inside = chance.choice(INSIDE, len(keys)).tolist()
            match chance.integers(6):
                case 0 | 1:
                    crowd.single(keys, inside)
                case 2 | 3:
                    crowd.batch(keys, inside)
                case 4:
                    crowd.remove(keys, inside)
                case _:
                    crowd.sweep()
            crowd.compare(crowd.state)
            assert backend.size("state") == sum(map(bool, crowd.expected.values()))
            if step % 20 == 19:
                held, before = backend.snapshot(tmp_path / f"{step}"), crowd.expected
                crowd.expected = {key: dict(items) for key, items in before.items()}
                crowd.single(KEYS[:300], [INSIDE[0]] * 300)
                crowd.clear(KEYS[200:1_000])
                after, crowd.expected = crowd.expected, before
                folder = held.finish().folder
                with open_backend("heap", clock=clock, restore=[folder]) as other:
                    crowd.compare(other.get_state(descriptor_of(kind, TTL)))
                crowd.expected = after
                backend.compact()
                crowd.compare(crowd.state)


def test_lists_of_a_batch():
    with open_backend("heap") as backend:
        state = backend.get_state(descriptor_of("list", None))
        keys = [f"key {number % 20}" for number in range(1_000)]
        state.add_many(keys, np.arange(1_000))
        state.add_many(["long"] * 5_000, np.arange(5_000))
        found = state.get_many(["key 3", "nobody", "long", "key 3"] * 10)
        assert found.type == pa.list_(pa.int64())
        first = [[*range(3, 1_000, 20)], None, [*range(5_000)], [*range(3, 1_000, 20)]]
        assert found.to_pylist() == first * 10
