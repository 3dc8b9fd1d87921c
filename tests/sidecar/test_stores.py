"""The stores: all or none, whatever happens to process and disk."""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from idlestate.sidecar.protocol.errors import DamagedDirectoryError, DiskFullError
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
    with pytest.raises(DamagedDirectoryError, match=r"check the disk|restore the folder"):
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
        with pytest.raises(DamagedDirectoryError, match="restart the sidecar"):
            store.write({"a": b"2"})
    with pytest.raises(DamagedDirectoryError, match="restart the sidecar"):
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
