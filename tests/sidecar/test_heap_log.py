"""The log of a heap store: what is cut off, what is refused, and how it is rewritten."""

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest

from idlestate.sidecar.protocol import message
from idlestate.sidecar.protocol.errors import DamagedDirectoryError
from idlestate.sidecar.stores.heap_log import HeapLog
from idlestate.sidecar.stores.heap_store import HeapStore
from tests.patience import PATIENCE_S


def test_a_log_is_written_anew_when_most_of_it_is_dead(tmp_path: Path) -> None:
    store = HeapStore(tmp_path)
    for number in range(50):
        store.write({"same": os.urandom(100_000), f"k{number}": b"."})
    store.close()
    assert store.bytes_on_disk() < 1_500_000
    (log,) = tmp_path.iterdir()
    assert log.stat().st_size < 1_500_000
    store = HeapStore(tmp_path)
    assert len(dict(store.scan(""))) == 51
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
    assert dict(store.scan("")) == {"a": b"1"}
    store.write({"c": b"3"})
    store.close()
    store = HeapStore(tmp_path)
    assert dict(store.scan("")) == {"a": b"1", "c": b"3"}
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
    assert dict(store.scan("")) == {keys[0]: b"."}
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
    with pytest.raises(DamagedDirectoryError, match=log.name):
        HeapStore(tmp_path)


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
    assert dict(store.scan("")) == {"a": b"x" * 400_000}
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
    assert dict(store.scan("")) == {"a": b"5" * 400_000}
    store.close()


def test_writes_go_on_while_a_log_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is written meanwhile than is copied while writes wait."""
    begun, may_end, snapshot = Event(), Event(), HeapLog.append_snapshot

    def slow(log: HeapLog, values: Mapping[str, bytes]) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_S)
        snapshot(log, values)

    monkeypatch.setattr(HeapLog, "append_snapshot", slow)
    store = HeapStore(tmp_path)
    store.write({"gone": b"1", "kept": b"2"})
    wanted = {"kept": b"2"}
    for number in range(6):
        store.write({"same": b"%d" % number * 400_000})
    assert begun.wait(PATIENCE_S)
    for number in range(6):
        wanted[f"k{number}"] = wanted["same"] = b"%d" % number * 400_000
        store.write({"gone": None, f"k{number}": wanted["same"], "same": wanted["same"]})
    assert dict(store.scan("")) == wanted
    may_end.set()
    store.close()
    assert dict(store.scan("")) == wanted
    (log,) = tmp_path.iterdir()
    assert log.name > f"log-{0:020}"
    store = HeapStore(tmp_path)
    assert dict(store.scan("")) == wanted
    store.write({"more": b"1"})
    store.close()
    store = HeapStore(tmp_path)
    assert dict(store.scan("")) == wanted | {"more": b"1"}
    store.close()
