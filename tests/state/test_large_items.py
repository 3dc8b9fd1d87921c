"""Large lists and maps in runs: a call costs by the entries that it touches."""

import pyarrow as pa
import pytest

from idlestate.backends.files.run_files import RunFiles
from idlestate.errors import StoreError
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import ListStateDescriptor, MapStateDescriptor
from idlestate.state.runs import cell_bytes, entry_rows, entry_table, runs_items
from idlestate.timers.clock import FakeClock

KEYS = [f"key {number}" for number in range(30)]
SIZE = 500
INSIDE = [f"inside {number}" for number in range(SIZE)]
LONG = pa.int64()
TTL = StateTtlConfig(ttl_ms=100)


def states(backend, **more):
    return (
        backend.get_state(
            MapStateDescriptor(name="m", key_type=pa.string(), value_type=LONG, **more)
        ),
        backend.get_state(ListStateDescriptor(name="l", value_type=LONG, **more)),
    )


def fill(backend, **more):
    entries, elements = states(backend, **more)
    each = [key for key in KEYS for _ in range(SIZE)]
    entries.put_many(each, INSIDE * len(KEYS), range(len(each)))
    elements.add_many(each, range(len(each)))
    backend.commit()


@pytest.fixture
def place(tmp_path):
    with open_backend("runs", tmp_path / "db") as backend:
        fill(backend)
    return tmp_path / "db"


@pytest.fixture
def decoded(monkeypatch):
    """How many values each decoding was of."""
    counts, decode = [], cell_bytes.decode

    def counted(layout, cells):
        items = decode(layout, cells)
        counts.append(len(items.cells))
        return items

    monkeypatch.setattr(cell_bytes, "decode", counted)
    return counts


@pytest.fixture
def written(monkeypatch):
    """How many rows each run has that is written, by table."""
    counts, write = {}, RunFiles.write

    def counted(self, table, segments, following):
        counts[table] = counts.get(table, 0) + len(following.fresh)
        return write(self, table, segments, following)

    monkeypatch.setattr(RunFiles, "write", counted)
    return counts


def in_batches(entries, elements):
    entries.put_many(KEYS, ["inside 7"] * len(KEYS), [-7] * len(KEYS))
    entries.put_many(KEYS, ["new"] * len(KEYS), [1] * len(KEYS))
    entries.remove_entries(KEYS, ["inside 8"] * len(KEYS))
    assert entries.get_many(KEYS, ["inside 9"] * len(KEYS)).null_count == 0
    elements.add_many(KEYS, [5] * len(KEYS))


def one_by_one(backend, entries, elements):
    for key in KEYS:
        backend.set_current_key(key)
        entries.put("inside 7", -7)
        entries.put("new", 1)
        entries.remove("inside 8")
        assert entries.contains("inside 9")
        assert entries.get("inside 9") is not None
        elements.add(5)


@pytest.mark.parametrize("batches", [True, False])
def test_calls_read_and_write_the_entries_that_they_touch(place, decoded, written, batches):
    with open_backend("runs", place) as backend:
        entries, elements = states(backend)
        if batches:
            in_batches(entries, elements)
        else:
            one_by_one(backend, entries, elements)
        backend.commit()
        assert sum(decoded) == 3 * len(KEYS)
        assert written == {"rows": len(KEYS), "entries_0": 3 * len(KEYS), "entries_1": len(KEYS)}
    with open_backend("runs", place) as backend:
        entries, elements = states(backend)
        for number, key in enumerate(KEYS):
            backend.set_current_key(key)
            first = number * SIZE
            expected = dict(zip(INSIDE, range(first, first + SIZE), strict=True))
            del expected["inside 8"]
            assert dict(entries.entries()) == expected | {"inside 7": -7, "new": 1}
            assert elements.get() == [*range(first, first + SIZE), 5]


def test_all_entries_of_a_key_are_read_without_those_of_others(place, decoded):
    with open_backend("runs", place) as backend:
        entries, elements = states(backend)
        backend.set_current_key(KEYS[3])
        assert sorted(entries.keys()) == sorted(INSIDE)
        assert elements.get() == list(range(3 * SIZE, 4 * SIZE))
        assert sum(decoded) == 2 * SIZE


def test_an_entry_that_is_replaced_leaves_the_first_table_as_it_is(place, written):
    with open_backend("runs", place) as backend:
        states(backend)[0].put_many(KEYS, ["inside 7"] * len(KEYS), [-7] * len(KEYS))
        backend.commit()
    assert written == {"entries_0": len(KEYS)}


def test_the_place_of_an_entry_is_computed_once_per_batch(place, monkeypatch):
    computed, places_of = [], entry_table.places_of

    def counted(rows):
        computed.append(len(rows))
        return places_of(rows)

    monkeypatch.setattr(entry_table, "places_of", counted)
    with open_backend("runs", place) as backend:
        entries, _ = states(backend)
        entries.put_many(KEYS, ["inside 7"] * len(KEYS), [-7] * len(KEYS))
        backend.commit()
        assert computed == [len(KEYS)]
        entries.remove_many(KEYS)
        backend.commit()
        assert computed == [len(KEYS)]


def test_keys_that_share_a_range_have_entries_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(
        entry_rows, "upper_bits", lambda strings, _: entry_rows.groups_of(strings) * 0
    )
    with open_backend("runs", tmp_path / "db", max_parallelism=1) as backend:
        fill(backend)
        entries, elements = states(backend)
        for number in (3, 4):
            backend.set_current_key(KEYS[number])
            assert sorted(entries.keys()) == sorted(INSIDE)
            assert entries.get(INSIDE[7]) == number * SIZE + 7
        entries.clear()
        found = elements.get_many(KEYS).to_pylist()
        assert found == [list(range(at * SIZE, (at + 1) * SIZE)) for at in range(len(KEYS))]
        backend.commit()
        assert backend.size("m") == len(KEYS) - 1


@pytest.mark.parametrize("other", ["heap", "rocksdb", "runs"])
def test_snapshots_hold_them_as_those_of_other_backends_do(place, tmp_path, other):
    with open_backend("runs", place) as backend:
        in_batches(*states(backend))
        backend.snapshot(tmp_path / "first").finish()
    folder = None if other == "heap" else tmp_path / "other"
    with open_backend(other, folder, restore=[tmp_path / "first"]) as backend:
        backend.snapshot(tmp_path / "second").finish()
    with open_backend("runs", tmp_path / "last", restore=[tmp_path / "second"]) as backend:
        entries, elements = states(backend)
        backend.set_current_key(KEYS[3])
        assert len(list(entries.keys())) == SIZE
        assert entries.get("inside 7") == -7
        assert list(elements.get()) == [*range(3 * SIZE, 4 * SIZE), 5]


def test_sweeps_remove_entries_and_then_the_row(tmp_path):
    clock = FakeClock(1000)
    with open_backend("runs", tmp_path / "db", clock=clock) as backend:
        fill(backend, ttl=TTL)
        entries, elements = states(backend, ttl=TTL)
        clock.advance(50)
        entries.put_many(KEYS[:2], ["inside 7"] * 2, [-7] * 2)
        elements.add_many(KEYS[:2], [5] * 2)
        clock.advance(50)
        removed, done = 0, False
        while not done:
            report = backend.sweep(clock.now_ms(), 1000)
            removed, done = removed + report.removed, report.done
        assert removed == 2 * len(KEYS) * SIZE - 2
        assert backend.size("m") == backend.size("l") == 2
        backend.compact()
        assert elements.get_many(KEYS[:3]).to_pylist() == [[5], [5], []]
        assert entries.get_many(KEYS[:3], ["inside 7"] * 3).to_pylist() == [-7, -7, None]
        clock.advance(100)
        while not backend.sweep(clock.now_ms(), 1000).done:
            pass
        assert backend.size("m") == backend.size("l") == 0
        backend.compact()
        assert list((tmp_path / "db" / "runs" / "0").iterdir()) == []


def test_a_cleared_one_is_small_again(place, written):
    with open_backend("runs", place) as backend:
        entries, elements = states(backend)
        for state in (entries, elements):
            state.remove_many(KEYS)
        backend.commit()
        written.clear()
        entries.put_many(KEYS, ["x"] * len(KEYS), [1] * len(KEYS))
        elements.add_many(KEYS, [1] * len(KEYS))
        backend.commit()
        assert written == {"rows": len(KEYS)}
        assert elements.get_many(KEYS).to_pylist() == [[1]] * len(KEYS)


def test_a_disk_that_refuses_a_commit_leaves_what_has_just_become_large(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    with open_backend("runs", tmp_path / "db") as backend:
        entries, elements = states(backend)
        with monkeypatch.context() as broken:
            broken.setattr(RunFiles, "write", refuse)
            with pytest.raises(StoreError):
                fill(backend)
        entries.remove_entries(KEYS, ["inside 8"] * len(KEYS))
        elements.add_many(KEYS, [5] * len(KEYS))
        backend.commit()
        backend.set_current_key(KEYS[3])
        assert len(list(entries.keys())) == SIZE - 1
        assert elements.get() == [*range(3 * SIZE, 4 * SIZE), 5]


def test_a_state_that_is_dropped_takes_its_second_table_with_it(place):
    with open_backend("runs", place, clock=FakeClock(1000)) as backend:
        elements = states(backend, ttl=TTL)[1]  # rows are rewritten
        assert len(elements.get_many(KEYS[:1])[0]) == SIZE
        backend.commit()
        names = sorted(path.name.split("-")[1] for path in (place / "runs" / "0").iterdir())
        assert names == ["entries_2", "entries_3", "rows"]


def test_what_is_longer_than_a_cell_may_be_moves(tmp_path, written, monkeypatch):
    monkeypatch.setattr(runs_items, "CELL_BYTES", 20)
    with open_backend("runs", tmp_path / "db") as backend:
        elements = states(backend)[1]
        elements.add_many(["two", "two", "three", "three", "three"], range(5))
        backend.commit()
        assert written == {"rows": 2, "entries_1": 3}
        assert elements.get_many(["two", "three"]).to_pylist() == [[0, 1], [2, 3, 4]]
