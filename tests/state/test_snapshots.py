"""Snapshots: whole or refused, taken while calls go on, read in any key-group range."""

import json
import shutil

import pyarrow as pa
import pytest

from idlestate.state.backend_factory import open_backend
from idlestate.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from idlestate.state.errors import (
    BackendKindError,
    DamagedFileError,
    FolderInUseError,
    KeyGroupError,
    SnapshotError,
    StateArgumentError,
    StateMigrationError,
    StateStoreError,
)
from idlestate.state.key_groups import KeyGroupRange
from idlestate.state.snapshot import SnapshotMode

LONG = pa.int64()
KEYS = [f"key {number}" for number in range(100)]


def states(backend):
    return (
        backend.get_state(ValueStateDescriptor(name="v", value_type=LONG)),
        backend.get_state(ListStateDescriptor(name="l", value_type=LONG)),
        backend.get_state(MapStateDescriptor(name="m", key_type=pa.string(), value_type=LONG)),
    )


def fill(backend, number):
    value, elements, entries = states(backend)
    value.put_many(KEYS, [number] * len(KEYS))
    elements.add_many(KEYS, [number] * len(KEYS))
    entries.put_many(KEYS, [f"at {number}"] * len(KEYS), [number] * len(KEYS))


@pytest.fixture(params=["heap", "rocksdb", "runs"])
def kind(request):
    return request.param


def opened(kind, folder, **more):
    return open_backend(kind, None if kind == "heap" else folder, **more)


@pytest.mark.parametrize("mode", SnapshotMode)
def test_what_comes_after_the_start_is_not_in_it(kind, mode, tmp_path):
    with opened(kind, tmp_path / "db") as backend:
        fill(backend, 1)
        timers = backend.timer_service("t", lambda timer: None, lambda timer: None)
        backend.set_current_key("a")
        timers.register_event_time_timer(None, 5)
        held = backend.snapshot(tmp_path / "snapshot", mode)
        fill(backend, 2)
        value, elements, entries = states(backend)
        elements.add(9)
        entries.put("other", 9)
        value.remove_many(KEYS[:50])
        timers.register_event_time_timer(None, 6)
        assert not (tmp_path / "snapshot").exists()
        info = held.finish()
        assert info.folder == tmp_path / "snapshot"
    for other in ("heap", "rocksdb", "runs"):
        place = tmp_path / f"again {other}"
        with opened(other, place, restore=[tmp_path / "snapshot"]) as backend:
            value, elements, entries = states(backend)
            assert set(value.get_many(KEYS).to_pylist()) == {1}
            assert {tuple(each) for each in elements.get_many(KEYS).to_pylist()} == {(1,)}
            backend.set_current_key(KEYS[7])
            assert list(entries.entries()) == [("at 1", 1)]
            timers = backend.timer_service("t", lambda timer: None, lambda timer: None)
            assert timers.advance_watermark(100) == 1


def test_a_snapshot_that_is_let_go_leaves_nothing(kind, tmp_path):
    with opened(kind, tmp_path / "db") as backend:
        fill(backend, 1)
        backend.snapshot(tmp_path / "snapshot").discard()
        assert [path.name for path in tmp_path.glob("snapshot*")] == []
        backend.snapshot(tmp_path / "snapshot").finish()
        with pytest.raises(StateArgumentError, match="is there already"):
            backend.snapshot(tmp_path / "snapshot").finish()


def test_only_new_files_are_new(tmp_path):
    with open_backend("rocksdb", tmp_path / "db") as backend:
        fill(backend, 1)
        backend.compact()
        first = backend.snapshot(tmp_path / "one").finish()
        again = backend.snapshot(tmp_path / "two").finish()
        assert first.new_files
        assert again.new_files == []
        linked = tmp_path / "two" / "db" / first.new_files[0]
        assert linked.stat().st_nlink >= 3
        states(backend)[0].put_many(["more"], [1])
        assert backend.snapshot(tmp_path / "three").finish().new_files


def snapshot_of(kind, tmp_path, mode=SnapshotMode.SAVEPOINT_CANONICAL):
    with opened(kind, tmp_path / "db") as backend:
        fill(backend, 1)
        backend.snapshot(tmp_path / "snapshot", mode).finish()
    return tmp_path / "snapshot"


def test_a_damaged_block_is_refused_and_named(kind, tmp_path):
    folder = snapshot_of(kind, tmp_path)
    file = folder / "0.rows"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"0\.rows: the block of key group \d+ is damaged"):
        open_backend("heap", restore=[folder])


def test_a_lost_rows_file_is_refused_and_named(kind, tmp_path):
    folder = snapshot_of(kind, tmp_path)
    (folder / "0.rows").unlink()
    with pytest.raises(DamagedFileError, match=r"0\.rows'; restore another snapshot"):
        open_backend("heap", restore=[folder])


@pytest.mark.parametrize("what", ["format", "codec", "rows"])
def test_a_version_that_is_not_known_is_refused(kind, tmp_path, what):
    folder = snapshot_of(kind, tmp_path)
    record = json.loads((folder / "snapshot.json").read_text())
    (folder / "snapshot.json").write_text(json.dumps(record | {what: 99}))
    with pytest.raises(StateArgumentError, match=f"'{what}': 99"):
        open_backend("heap", restore=[folder])


def test_what_is_no_snapshot_is_refused(kind, tmp_path):
    with pytest.raises(StateArgumentError, match="is not a valid snapshot"):
        opened(kind, tmp_path / "db", restore=[tmp_path])


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_record_is_damage(tmp_path, text):
    folder = snapshot_of("heap", tmp_path)
    (folder / "snapshot.json").write_text(text)
    with pytest.raises(DamagedFileError, match="is not a valid snapshot"):
        open_backend("heap", restore=[folder])


@pytest.mark.parametrize("name", ["snapshot.json", "0.rows"])
def test_a_file_that_cannot_be_read_is_an_error_of_the_store(tmp_path, name):
    folder = snapshot_of("heap", tmp_path)
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(SnapshotError, match="Is a directory"):
        open_backend("heap", restore=[folder])


def full_disk(*_):
    raise OSError(28, "No space left on device")


def test_a_clone_of_a_snapshot_that_fills_the_disk_leaves_nothing(tmp_path, monkeypatch):
    folder = snapshot_of("rocksdb", tmp_path, SnapshotMode.SAVEPOINT_NATIVE)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copy2", full_disk)
        with pytest.raises(SnapshotError, match="No space left on device; free disk space"):
            open_backend("rocksdb", tmp_path / "again", restore=[folder])
    assert list((tmp_path / "again").iterdir()) == []
    with open_backend("rocksdb", tmp_path / "again", restore=[folder]) as backend:
        assert states(backend)[0].get_many(KEYS).null_count == 0


def test_numbers_that_do_not_fit_are_refused_early(kind, tmp_path):
    folder = snapshot_of(kind, tmp_path)
    with pytest.raises(KeyGroupError, match="has max parallelism 128, this backend 64"):
        opened(kind, tmp_path / "a", max_parallelism=64, restore=[folder])
    with pytest.raises(KeyGroupError, match="max parallelism is 40000: it must be 1 to 32768"):
        opened(kind, tmp_path / "b", max_parallelism=40_000)
    with pytest.raises(KeyGroupError, match="key groups 0 to 200: with max parallelism 128"):
        opened(kind, tmp_path / "c", groups=KeyGroupRange(0, 200))
    with pytest.raises(StateMigrationError, match="keys are stored as string, declared as int64"):
        opened(kind, tmp_path / "d", key_type=LONG, restore=[folder])


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BackendKindError, match="file is a file; pass a folder"):
        open_backend("rocksdb", tmp_path / "file")
    below = tmp_path / "file" / "below"
    with pytest.raises(StateStoreError, match=f"{below}: RocksDB does not open"):
        open_backend("rocksdb", below)


def test_a_folder_of_rocksdb_is_opened_as_it_was_made(tmp_path):
    with open_backend("rocksdb", tmp_path / "db") as backend:
        fill(backend, 1)
        with pytest.raises(FolderInUseError, match="is open already"):
            open_backend("rocksdb", tmp_path / "db")
    with pytest.raises(StateMigrationError, match="with max_parallelism=128; pass 128, not 64"):
        open_backend("rocksdb", tmp_path / "db", max_parallelism=64)
    snapshot = tmp_path / "snapshot"
    with open_backend("rocksdb", tmp_path / "db") as backend:
        backend.snapshot(snapshot).finish()
    with pytest.raises(StateArgumentError, match="holds state already"):
        open_backend("rocksdb", tmp_path / "db", restore=[snapshot])
