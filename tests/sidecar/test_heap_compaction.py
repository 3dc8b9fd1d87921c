"""The heap store's log is written anew beside writes: what may go wrong meanwhile."""

import errno
import os
import stat
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from idlestate.sidecar.protocol.errors import DamagedDirectoryError
from idlestate.sidecar.stores.heap_log import HeapLog
from idlestate.sidecar.stores.heap_store import HeapStore
from tests.patience import PATIENCE_S

LARGE = 400_000


def contents(folder: Path) -> dict[str, bytes]:
    store = HeapStore(folder)
    found = dict(store.scan(""))
    store.close()
    return found


def compacted(store: HeapStore) -> None:
    """Write until a new log is begun, with the last of these writes, and let it be."""
    for number in (1, 2, 3):
        store.write({"same": b"%d" % number * LARGE})
    thread = store._compaction
    assert thread is not None
    thread.join(PATIENCE_S)


def test_a_copy_beside_the_log_is_not_taken_for_a_newer_one(tmp_path: Path) -> None:
    store = HeapStore(tmp_path)
    store.write({"key": b"value"})
    store.close()
    (log,) = tmp_path.iterdir()
    copy = log.with_name(f"{log.name}.bak")
    copy.write_bytes(b"")
    assert contents(tmp_path) == {"key": b"value"}
    assert copy.exists()


def is_folder(number: int) -> bool:
    return stat.S_ISDIR(os.fstat(number).st_mode)


def test_a_folder_that_cannot_be_opened_for_a_sync_loses_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, opened = HeapStore(tmp_path, sync=True), os.open

    def refused(path: Path, flags: int, *more: int) -> int:
        if flags & os.O_DIRECTORY:
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(path, flags, *more)

    monkeypatch.setattr(os, "open", refused)
    compacted(store)
    kept = {"same": b"3" * LARGE}
    try:
        store.write({"later": b"1"})
        kept["later"] = b"1"
    except DamagedDirectoryError:
        pass
    monkeypatch.undo()
    store.close()
    assert contents(tmp_path) == kept


def test_an_old_log_stays_until_the_name_of_the_new_one_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, fsync = HeapStore(tmp_path, sync=True), os.fsync

    def refused(number: int) -> None:
        if is_folder(number):
            raise OSError(errno.EIO, "Input/output error")
        fsync(number)

    monkeypatch.setattr(os, "fsync", refused)
    compacted(store)
    with pytest.raises(DamagedDirectoryError, match="restart the sidecar"):
        store.write({"later": b"1"})
    monkeypatch.undo()
    store.close()
    assert len(list(tmp_path.iterdir())) == 2
    assert contents(tmp_path) == {"same": b"3" * LARGE}


def test_a_store_of_many_small_values_is_written_anew_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot, begun = HeapLog.append_snapshot, list[int]()

    def counted(log: HeapLog, values: Mapping[str, bytes]) -> None:
        begun.append(len(values))
        if len(begun) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        snapshot(log, values)

    monkeypatch.setattr(HeapLog, "append_snapshot", counted)
    store = HeapStore(tmp_path)
    store.write({f"{number:060}": b"." for number in range(20_000)})
    store.close()
    assert begun == [20_000]


def test_a_snapshot_of_many_small_values_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("idlestate.sidecar.protocol.message.MAX_HEADER_BYTES", 6_000_000)
    store, wanted = HeapStore(tmp_path), dict[str, bytes]()
    for part in range(4):
        some = {f"{number:060}": b"." for number in range(part * 30_000, (part + 1) * 30_000)}
        store.write(some)
        wanted |= some
    compacted(store)
    store.close()
    assert contents(tmp_path) == wanted | {"same": b"3" * LARGE}


def test_an_old_log_that_does_not_go_stops_no_later_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written beside the next compaction is in its log."""
    unlink = Path.unlink
    store = HeapStore(tmp_path)
    at_unlink = threading.Event()
    may_fail = threading.Event()

    def refused(path: Path, *, missing_ok: bool = False) -> None:
        if path.suffix != ".draft":
            at_unlink.set()
            assert may_fail.wait(PATIENCE_S)
            raise OSError(errno.EIO, "Input/output error")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    for number in range(4):
        store.write({"same": b"%d" % number * LARGE})
    assert at_unlink.wait(PATIENCE_S)
    for number in range(4):
        store.write({"same": b"%d" % number * LARGE})
    assert [thread.name for thread in threading.enumerate()].count("idlestate-compact") == 1
    may_fail.set()
    store.write({"later": b"1"})
    store.close()
    monkeypatch.undo()
    assert contents(tmp_path) == {"same": b"3" * LARGE, "later": b"1"}


def test_a_compaction_ends_however_much_is_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, append, rounds = HeapStore(tmp_path), HeapLog.append, list[str]()

    def overtaken(log: HeapLog, records: Sequence[bytes]) -> None:
        append(log, records)
        if log.path.suffix == ".draft" and len(records) and not store._lock.locked():
            rounds.append(log.path.name)
            if len(rounds) < 20:
                for number in range(4):
                    store.write({"same": b"%d" % number * LARGE})

    monkeypatch.setattr(HeapLog, "append", overtaken)
    for number in (1, 2, 3):  # the last begins it, so no other write holds the lock meanwhile
        store.write({"same": b"%d" % number * LARGE})
    store.close()
    assert 0 < max(map(rounds.count, rounds)) < 5
    assert contents(tmp_path) == {"same": b"3" * LARGE}


def test_a_write_counts_where_no_thread_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, wanted = HeapStore(tmp_path), b""

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        for number in range(4):
            wanted = b"%d" % number * LARGE
            store.write({"same": wanted})
    for _ in range(6):
        store.write({"same": wanted})
    store.close()
    assert store.bytes_on_disk() < 3 * LARGE
    assert contents(tmp_path) == {"same": wanted}
