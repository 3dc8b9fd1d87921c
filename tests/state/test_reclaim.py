"""What has expired gives memory and disk back, while calls go on."""

from threading import Thread

import numpy as np
import pyarrow as pa
import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from idlestate.timers.clock import FakeClock

COUNT = 20_000
LONG = pa.int64()
TTL = StateTtlConfig(ttl_ms=1000, cleanup_in_background=False)
KEYS = [f"customer-{number:09}" for number in range(COUNT)]
BUSY = [f"busy-{number}" for number in range(100)]


def states(backend):
    return (
        backend.get_state(ValueStateDescriptor(name="v", value_type=LONG, ttl=TTL)),
        backend.get_state(ListStateDescriptor(name="l", value_type=LONG, ttl=TTL)),
        backend.get_state(
            MapStateDescriptor(name="m", key_type=pa.string(), value_type=LONG, ttl=TTL)
        ),
    )


def files(folder):
    return sum(path.stat().st_size for path in folder.glob("*.sst"))


@pytest.mark.parametrize("kind", ["heap", "rocksdb", "runs"])
def test_room_shrinks_to_next_to_nothing_while_calls_go_on(kind, tmp_path):
    clock, place = FakeClock(0), None if kind == "heap" else tmp_path / "db"
    with open_backend(kind, place, clock=clock) as backend:
        value, elements, entries = states(backend)
        value.put_many(KEYS, range(COUNT))
        elements.add_many(KEYS, range(COUNT))
        entries.put_many(KEYS, ["x"] * COUNT, range(COUNT))
        timers = backend.timer_service("t", lambda timer: None, lambda timer: None)
        timers.register_many(TimeDomain.EVENT, KEYS, None, range(COUNT))
        backend.compact()
        full, on_disk = backend.usage(), files(tmp_path / "db")
        assert full.dead_bytes < full.total_bytes // 20

        clock.advance(1000)
        while len(timers.take_due(TimeDomain.EVENT, COUNT, 5000).keys):
            pass
        number, done = 0, False
        while not done:
            value.put_many(BUSY, [number] * len(BUSY))
            assert set(value.get_many(BUSY).to_pylist()) == {number}
            done = backend.sweep(clock.now_ms(), 5000).done
            number += 1
        if kind == "rocksdb":
            assert backend.usage().dead_bytes > full.total_bytes // 2
            giving_back = Thread(target=backend.reclaim)
            giving_back.start()
            while giving_back.is_alive():
                number += 1
                value.put_many(BUSY, [number] * len(BUSY))
                assert set(value.get_many(BUSY).to_pylist()) == {number}
            giving_back.join()
            backend.reclaim()
            assert files(tmp_path / "db") < on_disk // 20
        backend.compact()
        left = backend.usage()
        assert left.total_bytes < full.total_bytes // 20
        assert left.dead_bytes <= left.total_bytes
        assert set(value.get_many(BUSY).to_pylist()) == {
            number if kind == "rocksdb" else number - 1
        }


@pytest.mark.parametrize("kind", ["heap", "rocksdb", "runs"])
def test_a_sweep_hands_on_what_it_removed(kind, tmp_path):
    clock, place = FakeClock(0), None if kind == "heap" else tmp_path / "db"
    with open_backend(kind, place, clock=clock) as backend:
        value, elements, entries = states(backend)
        value.put_many(KEYS, range(COUNT))
        value.set_current_namespace("window")
        value.put_many(KEYS[:3], [7, 8, 9])
        elements.add_many(["a", "a", "b"], [1, 2, 3])
        entries.put_many(["a", "a"], ["x", "y"], [4, 5])
        clock.advance(500)
        value.set_current_namespace(None)
        value.put_many(KEYS[::2], range(0, COUNT, 2))
        elements.add_many(["a"], [6])
        clock.advance(500)
        found, done = {"v": [], "l": [], "m": []}, False
        while not done:
            report = backend.sweep(clock.now_ms(), 3000, records=True)
            assert sum(map(len, report.expired.values())) == report.removed
            for name, table in report.expired.items():
                found[name] += table.to_pylist()
            done = report.done
        assert all(row["written_at_ms"] == 0 for rows in found.values() for row in rows)
        mine = {(row["key"], row["namespace"]): row["value"] for row in found["v"]}
        assert mine == {(key, None): number for number, key in enumerate(KEYS) if number % 2} | {
            (key, "window"): 7 + number for number, key in enumerate(KEYS[:3])
        }
        assert sorted((row["key"], row["value"]) for row in found["l"]) == [
            *(("a", 1), ("a", 2), ("b", 3))
        ]
        assert sorted((row["key"], row["user_key"], row["value"]) for row in found["m"]) == [
            *(("a", "x", 4), ("a", "y", 5))
        ]
        assert np.array_equal(value.get_many(KEYS[::2]).to_numpy(), range(0, COUNT, 2))
        assert value.get_many(KEYS[1::2]).null_count == COUNT // 2
        assert backend.size("v") == COUNT // 2
