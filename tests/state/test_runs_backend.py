"""Keyed state in runs: one look-up per batch, one run per commit, all of it or nothing."""

import os

import pyarrow as pa
import pytest

from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.runs.table_runs import Runs
from idlestate.errors import StoreError
from idlestate.retention.policy import TimeDomain
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from idlestate.state.runs import cell_bytes, runs_timers, working_set
from idlestate.timers.clock import FakeClock
from tests.state.runs_history import (
    AFTER_1_AND_2,
    COUNT,
    KEYS,
    LONG,
    found,
    states,
    two_commits,
    use_everything,
)


@pytest.fixture
def place(tmp_path):
    return two_commits(tmp_path / "db")


def test_timers_one_at_a_time_are_looked_up_together(tmp_path, monkeypatch):
    calls, look_up = [], Runs.look_up
    monkeypatch.setattr(
        Runs, "look_up", lambda *given: (calls.append(len(given[1])), look_up(*given))[1]
    )
    with open_backend("runs", tmp_path / "db") as backend:
        timers = backend.timer_service("t", lambda timer: None, lambda timer: None)

        def each(call, numbers):
            for number in numbers:
                backend.set_current_key(f"key {number}")
                call(None, number)

        each(timers.register_event_time_timer, range(100))
        backend.commit()
        calls.clear()
        each(timers.register_event_time_timer, range(50, 150))
        each(timers.delete_event_time_timer, range(25))
        each(timers.delete_event_time_timer, [*range(140, 200), *range(10)])
        assert calls == []
        assert timers.count(TimeDomain.EVENT) == 115
        assert sorted(calls) == [75, 100]
        backend.commit()
        assert sorted(timers.times_ms(TimeDomain.EVENT).tolist()) == [*range(25, 140)]
        monkeypatch.setattr(runs_timers, "AHEAD", 8)
        each(timers.register_event_time_timer, [90, 200])
        assert len(timers.take_due(TimeDomain.EVENT, 99, 1000).keys) == 75
        assert timers.count(TimeDomain.EVENT) == 41


@pytest.fixture
def looked_up(monkeypatch):
    """How many keys each look-up of rows was for."""
    sizes, look_up = [], Runs.look_up

    def counted(self, hashes, keys):
        if self.schema.columns:  # not of timers
            sizes.append(len(hashes))
        return look_up(self, hashes, keys)

    monkeypatch.setattr(Runs, "look_up", counted)
    return sizes


def test_a_batch_looks_its_keys_up_once_for_all_states(place, looked_up):
    with open_backend("runs", place) as backend:
        use_everything(backend, 3)
        assert looked_up == [COUNT]
        backend.commit()
        use_everything(backend, 4)
        assert looked_up == [COUNT, COUNT]


def test_announced_keys_are_looked_up_once_for_all_calls(place, looked_up):
    with open_backend("runs", place) as backend:
        value, _, items, entries, total = states(backend)
        backend.fetch(KEYS)
        for key in KEYS:
            backend.set_current_key(key)
            value.update(value.value() + 1)
            assert items.get() == [1, 2]
            entries.put("y", entries.get("x"))
            total.add(5)
        assert looked_up == [COUNT]
        backend.commit()
        assert set(value.get_many(KEYS).to_pylist()) == {3}
        assert set(total.get_many(KEYS).to_pylist()) == {7}
        assert looked_up == [COUNT, COUNT]


def test_a_commit_writes_one_run_for_each_table_that_changed(place, monkeypatch):
    written, write = [], RunFiles.write

    def counted(self, table, segments, following):
        written.append(table)
        return write(self, table, segments, following)

    monkeypatch.setattr(RunFiles, "write", counted)
    with open_backend("runs", place) as backend:
        use_everything(backend, 3)
        assert written == []
        backend.commit()
        assert sorted(written) == ["rows", "timers_1"]
        backend.commit()
        states(backend)[0].put_many(KEYS[:3], [9, 9, 9])
        backend.commit()
        assert sorted(written) == ["rows", "rows", "timers_1"]


def test_cells_that_nobody_asks_about_are_written_back_as_they_came(place, monkeypatch):
    decoded, decode = set(), cell_bytes.decode

    def noted(layout, cells):
        decoded.update([layout.kind] if len(cells) else [])
        return decode(layout, cells)

    monkeypatch.setattr(cell_bytes, "decode", noted)
    with open_backend("runs", place) as backend:
        value, _, items, _, _ = states(backend)
        value.put_many(KEYS, [2] * COUNT)
        items.add_many(KEYS, [3] * COUNT)
        backend.commit()
        assert decoded == set()
        assert found(backend) == ({2}, {"2"}, {(1, 2, 3)}, {2}, {2}, 2 * COUNT)


@pytest.mark.parametrize("in_batches", [False, True])
@pytest.mark.parametrize(
    ("calls", "left"),
    [
        (["add", "add"], [1, 2, 7, 7]),
        (["add", "clear"], None),
        (["add", "clear", "add"], [7]),
        (["clear", "add"], [7]),
        (["add", "get", "add"], [1, 2, 7, 7]),
        (["add", "update"], [8]),
        (["add", "update", "add"], [8, 7]),
    ],
)
def test_elements_are_added_to_lists_that_were_not_read(place, calls, left, in_batches):
    with open_backend("runs", place) as backend:
        items = states(backend)[2]
        backend.set_current_key(KEYS[0])
        act = {
            "add": lambda: items.add_many(KEYS[:20], [7] * 20) if in_batches else items.add(7),
            "clear": lambda: items.remove_many(KEYS[:20]) if in_batches else items.clear(),
            "get": lambda: items.get_many(KEYS[:20]) if in_batches else items.get(),
            "update": lambda: items.update([8]),
        }
        for call in calls:
            act[call]()
        backend.commit()
        assert items.get() == left
        assert items.get_many(KEYS[20:]).to_pylist() == [[1, 2]] * (COUNT - 20)


@pytest.mark.parametrize("most_rows", [1 << 18, 50])
def test_what_was_not_committed_is_gone(place, monkeypatch, most_rows):
    """Also what was written back before, since there was too much in memory."""
    monkeypatch.setattr(working_set, "MOST_ROWS", most_rows)
    with open_backend("runs", place) as backend:
        use_everything(backend, 3)
        states(backend)[0].put_many([f"other {number}" for number in range(100)], range(100))
        assert backend.size("v") == COUNT + 100
        assert found(backend)[0] == {3}
    with open_backend("runs", place) as backend:
        assert found(backend) == AFTER_1_AND_2
        assert backend.size("v") == COUNT


def no_sync(broken):
    broken.setattr(os, "fsync", lambda _: refuse())


def no_second_table(broken):
    write = RunFiles.write

    def refused(self, table, segments, following):
        return refuse() if table != "rows" else write(self, table, segments, following)

    broken.setattr(RunFiles, "write", refused)


def refuse():
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("break_disk", [no_sync, no_second_table])
def test_a_disk_that_refuses_a_commit_leaves_the_last_one_and_what_is_in_memory(
    place, monkeypatch, break_disk
):
    with open_backend("runs", place) as backend:
        use_everything(backend, 3)
        with monkeypatch.context() as broken:
            break_disk(broken)
            with pytest.raises(StoreError, match=r"db: .*nothing was committed.*free disk space"):
                backend.commit()
        with open_copy(place) as copy:
            assert found(copy) == AFTER_1_AND_2
        backend.commit()
        assert len(list((place / "runs" / "0").iterdir())) == 2
    with open_backend("runs", place) as backend:
        assert found(backend) == ({3}, {"3"}, {(1, 2, 3)}, {3}, {3}, 3 * COUNT)


def open_copy(place):
    """What a crash would have left now."""
    copy = place.with_name("copy")
    for path in place.rglob("*"):
        if path.is_file():
            target = copy / path.relative_to(place)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return open_backend("runs", copy)


def test_leftovers_of_a_crash_are_removed(place):
    (place / "runs" / "0" / "9-rows-0123.arrow").write_bytes(b"half a run")
    (place / "state.json.draft").write_bytes(b"half a record")
    with open_backend("runs", place) as backend:
        assert found(backend) == AFTER_1_AND_2
        record = (place / "state.json").read_text()
        assert all(path.name in record for path in (place / "runs" / "0").iterdir())


def test_a_snapshot_that_is_held_does_not_see_what_is_committed_and_merged(place, tmp_path):
    with open_backend("runs", place) as backend:
        held = backend.snapshot(tmp_path / "snapshot")
        for number in (3, 4):
            use_everything(backend, number)
            backend.compact()
        held.finish()
        backend.commit()
        assert len(list((place / "runs" / "0").iterdir())) == 2
    for kind, folder in (("heap", None), ("rocksdb", tmp_path / "r"), ("runs", tmp_path / "n")):
        with open_backend(kind, folder, restore=[tmp_path / "snapshot"]) as backend:
            assert found(backend) == AFTER_1_AND_2


def test_a_restored_state_is_durable_at_the_first_commit(place, tmp_path):
    with open_backend("runs", place) as backend:
        backend.snapshot(tmp_path / "snapshot").finish()
    for folder in (tmp_path / "again", tmp_path / "again"):
        with open_backend("runs", folder, restore=[tmp_path / "snapshot"]) as backend:
            assert found(backend) == AFTER_1_AND_2
    with open_backend("runs", folder, restore=[tmp_path / "snapshot"]) as backend:
        backend.commit()
    with open_backend("runs", folder) as backend:
        assert found(backend) == AFTER_1_AND_2


def test_states_are_added_and_widened_on_runs_that_stay(place):
    with open_backend("runs", place) as backend:
        late = backend.get_state(ValueStateDescriptor(name="late", value_type=pa.int8()))
        assert late.get_many(KEYS).null_count == COUNT
        late.put_many(KEYS[:10], [5] * 10)
        backend.commit()
        assert late.get_many(KEYS).null_count == COUNT - 10
    for _ in range(2):
        with open_backend("runs", place) as backend:
            late = backend.get_state(ValueStateDescriptor(name="late", value_type=LONG))
            assert late.get_many(KEYS[:10]).to_pylist() == [5] * 10
            assert found(backend) == AFTER_1_AND_2
            assert backend.size("late") == 10
            backend.commit()
    with open_backend("runs", place) as backend:
        backend.compact()
        late = backend.get_state(ValueStateDescriptor(name="late", value_type=LONG))
        assert late.get_many(KEYS).null_count == COUNT - 10
        assert found(backend) == AFTER_1_AND_2


def test_expiry_times_are_of_all_rows_whether_a_state_was_asked_about_them_or_not(tmp_path):
    """Rows in memory that were only fetched, and elements behind a list that was not read."""
    clock, ttl = FakeClock(1000), StateTtlConfig(ttl="100ms", cleanup_in_background=False)
    pages = ListStateDescriptor(name="pages", value_type=pa.string(), ttl=ttl)
    with open_backend("runs", tmp_path, clock=clock) as backend:
        backend.get_state(pages).add_many(["ada", "bob", "eve"], ["/a", "/b", "/c"])
        backend.commit()
        clock.advance(5)
        backend.fetch(["ada"])
        backend.set_current_key("bob")
        backend.get_state(pages).add("/d")
        assert sorted(backend.expiry_times_ms("pages").tolist()) == [1100, 1100, 1100, 1105]
        backend.commit()
        assert sorted(backend.expiry_times_ms("pages").tolist()) == [1100, 1100, 1100, 1105]
