"""The stores: all or none, whatever happens to process and disk."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event

import pytest

from idlestate.sidecar.protocol import message
from idlestate.sidecar.protocol.errors import DamagedError, DiskFullError
from idlestate.sidecar.stores.heap_log import HeapLog
from idlestate.sidecar.stores.heap_store import HeapStore
from idlestate.sidecar.stores.rocksdb_store import RocksDBStore
from idlestate.sidecar.stores.store import Store
from tests.small_disk import enlarge, mounted

STORES = {"heap": HeapStore, "rocksdb": RocksDBStore}
KINDS = pytest.mark.parametrize("kind", STORES)


def contents(store: Store) -> dict[str, bytes]:
    return dict(store.scan(""))


@KINDS
def test_values_are_there_again(tmp_path: Path, kind: str) -> None:
    store = STORES[kind](tmp_path)
    store.write({"a/1": b"x", "a/2": b"y" * 100_000, "b": b""})
    store.write({"a/1": None, "nobody": None, "c": b"z"})
    for _ in range(2):
        assert list(store.scan("a/")) == [("a/2", b"y" * 100_000)]
        assert (store.get("b"), store.get("a/1")) == (b"", None)
        assert contents(store).keys() == {"a/2", "b", "c"}
        store.close()
        store.close()
        store = STORES[kind](tmp_path)
    store.close()


@KINDS
def test_a_store_is_its_users_alone_in_a_folder_that_all_may_enter(
    tmp_path: Path, kind: str
) -> None:
    tmp_path.chmod(0o755)
    STORES[kind](tmp_path / "store").close()
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


@KINDS
def test_threads_may_write_at_once(tmp_path: Path, kind: str) -> None:
    store = STORES[kind](tmp_path)

    def write(name: str) -> None:
        for number in range(60):
            store.write({f"{name}/{number}": name.encode() * 30_000, f"{name}": b"%d" % number})

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert all(value.strip(b"a") == b"" for _, value in store.scan("a/"))
    store.close()
    store = STORES[kind](tmp_path)
    assert len(contents(store)) == 4 * 61
    store.close()


def test_a_log_is_written_anew_when_most_of_it_is_dead(tmp_path: Path) -> None:
    store = HeapStore(tmp_path)
    for number in range(50):
        store.write({"same": os.urandom(100_000), f"k{number}": b"."})
    store.close()
    assert store.bytes_on_disk() < 1_500_000
    (log,) = tmp_path.iterdir()
    assert log.stat().st_size < 1_500_000
    store = HeapStore(tmp_path)
    assert len(contents(store)) == 51
    store.close()


@pytest.mark.parametrize("cut", [1, 7, 15, 16, 17, 30, 59])
def test_a_record_that_was_not_written_whole_is_cut_off(tmp_path: Path, cut: int) -> None:
    store = HeapStore(tmp_path)
    store.write({"a": b"1"})
    size = store.bytes_on_disk()
    store.write({"a": b"2", "b": b"2"})
    store.close()
    (log,) = tmp_path.iterdir()
    data = log.read_bytes()
    log.write_bytes(data[: size + cut])
    assert cut < len(data) - size
    store = HeapStore(tmp_path)
    assert contents(store) == {"a": b"1"}
    store.write({"c": b"3"})
    store.close()
    store = HeapStore(tmp_path)
    assert contents(store) == {"a": b"1", "c": b"3"}
    store.close()


def test_a_write_of_more_keys_than_a_message_may_name_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the last consumer acknowledges the expired records of a week."""
    monkeypatch.setattr(message, "MAX_HEADER_BYTES", 1000)
    keys = [f"e/counts/{number:020}" for number in range(100)]
    store = HeapStore(tmp_path)
    store.write(dict.fromkeys(keys, b"."))
    store.write(dict.fromkeys(keys[1:]))
    store.close()
    store = HeapStore(tmp_path)
    assert contents(store) == {keys[0]: b"."}
    store.close()


@pytest.mark.parametrize("back", [1, 3, 40])
def test_a_damaged_log_is_refused_by_its_name(tmp_path: Path, back: int) -> None:
    store = HeapStore(tmp_path)
    store.write({"a": b"1" * 50})
    store.write({"b": b"2"})
    store.close()
    (log,) = tmp_path.iterdir()
    data = bytearray(log.read_bytes())
    data[-back] ^= 1
    log.write_bytes(data)
    with pytest.raises(DamagedError, match=log.name):
        HeapStore(tmp_path)


def test_a_damaged_rocksdb_file_is_refused(tmp_path: Path) -> None:
    store = RocksDBStore(tmp_path)
    store.write({f"k{number:05}": os.urandom(50_000) for number in range(100)})
    store.close()
    blobs = [*tmp_path.glob("*.blob"), *tmp_path.glob("*.sst")]
    assert blobs
    for blob in blobs:
        data = bytearray(blob.read_bytes())
        data[len(data) // 2] ^= 0xFF
        blob.write_bytes(data)
    with pytest.raises(DamagedError, match=r"check the disk|bring the folder back"):
        contents(RocksDBStore(tmp_path))


WRITER = """
import sys
from pathlib import Path
from threading import Event
from idlestate.sidecar.stores.{module} import {store}
store = {store}(Path(sys.argv[1]))
for number in range(10**9):
    store.write({{"a": b"%d" % number, "b": b"%d" % number, f"pad{{number % 20}}": bytes(90_000)}})
    print(number, flush=True)
"""


@KINDS
def test_kill_9_leaves_every_acknowledged_write_and_none_by_half(tmp_path: Path, kind: str) -> None:
    program = WRITER.format(module=f"{kind}_store", store=STORES[kind].__name__)
    reached = -1
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for line in writer.stdout:
            reached = int(line)
            if reached > 60:
                writer.send_signal(signal.SIGKILL)
                break
        reached = max([reached, *map(int, writer.stdout.read().split("\n")[:-1])])
        writer.wait()
        writer.stdout.close()
        store = STORES[kind](tmp_path)
        assert store.get("a") == store.get("b")
        found = store.get("a")
        assert found is not None
        assert int(found) >= reached
        store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three megabytes."""
    with mounted(tmp_path / "disk", 3 * 1024) as place:
        yield place


def fill(store: Store) -> int:
    """Write until the disk is full; the last write that was acknowledged."""
    for number in range(1000):
        try:
            store.write({f"k{number}": os.urandom(20_000), "newest": b"%d" % number})
        except DiskFullError:
            return number - 1
    raise AssertionError("the disk is too large")


@KINDS
def test_a_full_disk_loses_nothing_and_halves_nothing(small_disk: Path, kind: str) -> None:
    store = STORES[kind](small_disk / "state")
    written = fill(store)
    store.close()
    assert written > 5
    (small_disk / "state" / "LOG").unlink(missing_ok=True)
    for old in (small_disk / "state").glob("LOG.old*"):
        old.unlink()
    enlarge(small_disk, 20 * 1024)
    store = STORES[kind](small_disk / "state")
    assert store.get("newest") == b"%d" % written
    assert len(contents(store)) == written + 2
    store.write({"more": b"1"})
    store.close()


def test_a_heap_store_takes_writes_again_when_there_is_room(small_disk: Path) -> None:
    store = HeapStore(small_disk / "state")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2_500_000))
    with pytest.raises(DiskFullError, match="nothing has changed; the sidecar's disk is full"):
        store.write({"a": os.urandom(2_000_000)})
    ballast.unlink()
    store.write({"b": b"1"})
    store.close()
    store = HeapStore(small_disk / "state")
    assert contents(store) == {"b": b"1"}
    store.close()


@pytest.mark.parametrize("kind", ["heap"])
def test_an_fsync_that_fails_stops_writes_until_the_store_is_opened_again(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = HeapStore(tmp_path, sync=True)
    store.write({"a": b"1"})

    def fail(number: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(DamagedError, match="start the sidecar again"):
            store.write({"a": b"2"})
    with pytest.raises(DamagedError, match="start the sidecar again"):
        store.write({"a": b"3"})
    assert store.get("a") == b"1"
    store.close()
    store = HeapStore(tmp_path, sync=True)
    assert store.get("a") == b"1"
    store.close()


def test_a_file_that_a_compaction_removes_meanwhile_has_no_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, look, listed = RocksDBStore(tmp_path), Path.stat, Path.iterdir
    (tmp_path / "1.sst").write_bytes(b"x" * 1000)
    (tmp_path / "2.sst").write_bytes(b"x" * 1000)

    def stat(path: Path, **how: bool) -> os.stat_result:
        found = look(path, **how)
        if path.name == "1.sst":
            (tmp_path / "1.sst").unlink()
            (tmp_path / "2.sst").unlink()
        return found

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter(sorted(listed(folder))))
    assert store.bytes_on_disk() >= 1000
    store.close()


def test_a_new_log_is_durable_before_the_old_one_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, events = HeapStore(tmp_path, sync=True), list[str]()
    fsync, rename, unlink = os.fsync, Path.rename, Path.unlink

    def noted_fsync(number: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "log")
        fsync(number)

    def noted_rename(path: Path, target: Path) -> Path:
        events.append("rename")
        return rename(path, target)

    def noted_unlink(path: Path, **how: bool) -> None:
        events.append("unlink")
        unlink(path, **how)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    monkeypatch.setattr(Path, "unlink", noted_unlink)
    for _ in range(4):
        store.write({"a": b"x" * 400_000})
    store.close()
    monkeypatch.undo()
    at = events.index("rename")
    assert events[at - 1 : at + 2] == ["log", "rename", "folder"]
    assert "unlink" in events[at + 2 :]
    store = HeapStore(tmp_path)
    assert contents(store) == {"a": b"x" * 400_000}
    store.close()


def test_a_log_that_cannot_be_opened_anew_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, opened = HeapStore(tmp_path), Path.open

    def refused(path: Path, *how: str, **more: int) -> object:
        if path.name.startswith("log-") and "a" in how[0]:
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(path, *how, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refused)
    for number in range(6):
        store.write({"a": b"%d" % number * 400_000})
    store.close()
    monkeypatch.undo()
    store = HeapStore(tmp_path)
    assert contents(store) == {"a": b"5" * 400_000}
    store.close()


def test_writes_go_on_while_a_log_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is written meanwhile than is copied while writes wait."""
    begun, may_end, snapshot = Event(), Event(), HeapLog.append_snapshot

    def slow(log: HeapLog, values: Mapping[str, bytes]) -> None:
        begun.set()
        assert may_end.wait(30)
        snapshot(log, values)

    monkeypatch.setattr(HeapLog, "append_snapshot", slow)
    store = HeapStore(tmp_path)
    store.write({"gone": b"1", "kept": b"2"})
    wanted = {"kept": b"2"}
    for number in range(6):
        store.write({"same": b"%d" % number * 400_000})
    assert begun.wait(30)
    for number in range(6):
        wanted[f"k{number}"] = wanted["same"] = b"%d" % number * 400_000
        store.write({"gone": None, f"k{number}": wanted["same"], "same": wanted["same"]})
    assert contents(store) == wanted
    may_end.set()
    store.close()
    assert contents(store) == wanted
    (log,) = tmp_path.iterdir()
    assert log.name > f"log-{0:020}"
    store = HeapStore(tmp_path)
    assert contents(store) == wanted
    store.write({"more": b"1"})
    store.close()
    store = HeapStore(tmp_path)
    assert contents(store) == wanted | {"more": b"1"}
    store.close()
