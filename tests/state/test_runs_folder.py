"""A folder of runs that is damaged, in use, or of something else: plain errors that name it."""

from pathlib import Path

import pytest

from idlestate.errors import DamagedStateError, RefusedError
from idlestate.retention.policy import TimeDomain
from idlestate.state.backend_factory import open_backend
from tests.state.runs_history import found, states, timers_of, two_commits


@pytest.fixture
def place(tmp_path):
    return two_commits(tmp_path / "db")


def files_of(place, table):
    return sorted((place / "runs" / "0").glob(f"*-{table}-*"))


@pytest.mark.parametrize("table", ["rows", "timers_1"])
def test_a_damaged_file_is_named(place, table):
    for file in files_of(place, table):
        data = bytearray(file.read_bytes())
        data[len(data) // 4] ^= 1
        file.write_bytes(data)
    with pytest.raises(DamagedStateError, match=f"{table}.*arrow is damaged.*snapshot"):
        look_at_all(place)


@pytest.mark.parametrize("table", ["rows", "timers_1"])
def test_a_missing_file_is_named(place, table):
    gone = files_of(place, table)[-1]
    gone.unlink()
    with pytest.raises(DamagedStateError, match=f"{gone.name} is missing.*snapshot"):
        look_at_all(place)


def look_at_all(place):
    with open_backend("runs", place) as backend:
        found(backend)
        timers_of(backend).take_due(TimeDomain.EVENT, 100, 1000)


def test_a_damaged_record_is_named(place):
    record = place / "state.json"
    record.write_bytes(record.read_bytes().replace(b'"version": 2', b'"version": 3'))
    with pytest.raises(DamagedStateError, match=r"state\.json is damaged"):
        open_backend("runs", place)


def test_a_folder_is_open_once(place):
    with open_backend("runs", place), pytest.raises(RefusedError, match="is open already"):
        open_backend("runs", place)
    open_backend("runs", place).close()


def damage(file):
    data = bytearray(file.read_bytes())
    data[10] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(("name", "harm"), [("*.sst", damage), ("MANIFEST*", Path.unlink)])
def test_damage_in_a_folder_of_rocksdb_is_of_the_same_kind(tmp_path, name, harm):
    with open_backend("rocksdb", tmp_path) as backend:
        states(backend)[0].put_many(["a"], [1])
        backend.compact()
    for file in tmp_path.glob(name):
        harm(file)
    with (
        pytest.raises(DamagedStateError, match=f"{tmp_path}: a file of RocksDB is .*damaged"),
        open_backend("rocksdb", tmp_path) as backend,
    ):
        states(backend)[0].get_many(["a"])


def test_rocksdb_does_not_open_a_folder_of_runs_without_a_commit(tmp_path):
    with open_backend("runs", tmp_path) as backend:
        states(backend)[0].put_many(["a"], [1])
        with pytest.raises(RefusedError, match="holds runs"):
            open_backend("rocksdb", tmp_path)
        backend.commit()
    with open_backend("runs", tmp_path) as backend:
        assert states(backend)[0].get_many(["a"]).to_pylist() == [1]


def test_what_does_not_go_together_is_refused(place, tmp_path):
    with open_backend("rocksdb", tmp_path / "rocks"):
        pass
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letters.txt").write_text("mine")
    (tmp_path / "a file").write_text("mine")
    for kind, path, says in (
        ("runs", None, "needs a folder"),
        ("rocksdb", None, "needs a folder"),
        ("heap", tmp_path, "has no folder"),
        ("paper", tmp_path, "'paper' is not a valid backend; use heap, rocksdb or runs"),
        ("runs", tmp_path / "rocks", "is not of this kind of backend"),
        ("runs", tmp_path / "other", "holds letters.txt"),
        ("rocksdb", place, "holds runs"),
        ("runs", tmp_path / "a file", "a file is a file; pass a folder"),
        ("rocksdb", tmp_path / "a file", "a file is a file; pass a folder"),
    ):
        with pytest.raises(RefusedError, match=says):
            open_backend(kind, path)
    with pytest.raises(
        RefusedError, match="was created with max_parallelism=128; pass 128, not 64"
    ):
        open_backend("runs", place, max_parallelism=64)
    assert (tmp_path / "other" / "letters.txt").read_text() == "mine"
