"""Damage in the middle of what a killed process left: refused, never taken for its end.

And what is its end, however it looks: cut off, and nothing before it.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from idlestate.sidecar.core.prepared_sets import PreparedSets
from idlestate.sidecar.core.quarantined_writes import QuarantinedWrites
from idlestate.sidecar.protocol.errors import DamagedDirectoryError
from idlestate.sidecar.stores.heap_store import HeapStore
from idlestate.sidecar.stores.rocksdb_store import RocksDBStore
from tests.small_disk import disk, leave_room  # noqa: F401 - the fixture

STORES = {"heap": HeapStore, "rocksdb": RocksDBStore}
WRITER = """
import os, sys
from pathlib import Path
from idlestate.sidecar.stores.{module} import {store}
store = {store}(Path(sys.argv[1]))
for number in range(30):
    store.write({{f"k{{number}}": os.urandom(3_000)}})
os._exit(9)
"""


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        *(("heap", at) for at in (8, 14, 20, 30, 50, 45_000)),
        *(("rocksdb", at) for at in (1, 5, 6, 50, 45_000)),
    ],
)
def test_nothing_behind_damage_is_dropped_without_a_word(
    tmp_path: Path, kind: str, at: int
) -> None:
    program = WRITER.format(module=f"{kind}_store", store=STORES[kind].__name__)
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    (log,) = [*tmp_path.glob("log-*"), *tmp_path.glob("*.log")]
    data = bytearray(log.read_bytes())
    assert len(data) > 90_000
    data[at] ^= 0x10
    log.write_bytes(data)
    with pytest.raises(DamagedDirectoryError, match=r"from a (backup|copy)"):
        STORES[kind](tmp_path)
    assert log.stat().st_size == len(data)
    data[at] ^= 0x10
    log.write_bytes(data)
    store = STORES[kind](tmp_path)
    assert len(dict(store.scan(""))) == 30
    store.close()


@pytest.mark.parametrize(
    ("key", "reader"),
    [
        ("p/clicks/0000000001/00000", PreparedSets),
        ("a/clicks/1", QuarantinedWrites),
    ],
)
def test_a_stored_message_that_cannot_be_read_is_named(
    tmp_path: Path, key: str, reader: Callable[[HeapStore, str], object]
) -> None:
    store = HeapStore(tmp_path)
    store.write({key: b"no message"})
    with pytest.raises(DamagedDirectoryError, match=f"^{key}: .*from a backup$"):
        reader(store, "clicks")
    store.close()


def written(folder: Path) -> tuple[bytes, list[int]]:
    """A log on heap of three writes, and where each of them ends."""
    store, ends = HeapStore(folder), []
    for number, size in enumerate((10, 6_000, 9_000)):
        store.write({f"k{number}": os.urandom(size - 1) + b"."})
        ends.append(store.bytes_on_disk())
    store.close()
    (log,) = folder.iterdir()
    return log.read_bytes(), ends


def kept(folder: Path, data: bytes) -> int:
    """How many writes such a log is opened with; the next one is there behind them again."""
    log = folder / f"log-{0:020}"
    log.write_bytes(data)
    for _ in range(2):
        store = HeapStore(folder)
        count = len([key for key, _ in store.scan("k")])
        store.write({"next": b"1"})
        store.close()
    return count


def test_a_log_that_is_cut_anywhere_has_what_was_written_whole(tmp_path: Path) -> None:
    data, ends = written(tmp_path)
    cuts = {
        *range(8, ends[0] + 100),
        *range(ends[1] - 50, ends[1] + 100),
        *range(99, len(data), 997),
    }
    for cut in cuts:
        assert kept(tmp_path, data[:cut]) == sum(end <= cut for end in ends), cut


@pytest.mark.parametrize("zeros", [1, 23, 24, 30, 5_000, 70_000])
def test_zeros_behind_what_was_written_are_its_end(tmp_path: Path, zeros: int) -> None:
    """File systems leave them after a loss of power: the length came to the disk, not the bytes."""
    data, ends = written(tmp_path)
    for end in ends:
        assert kept(tmp_path, data[:end] + bytes(zeros)) == ends.index(end) + 1
    for begin in (1, 8, 12, 23, 24):  # of a head
        assert kept(tmp_path, data[: ends[0] + begin] + bytes(zeros)) == 1
    assert kept(tmp_path, data[: -len(data) % 4096 - 4096] + bytes(max(zeros, 4096))) == 2


@pytest.mark.parametrize("pages", [1, 2])
def test_pages_that_did_not_come_to_the_disk_are_its_end(tmp_path: Path, pages: int) -> None:
    """The last of them is seldom a whole one."""
    data, ends = written(tmp_path)
    begin = (len(data) - 1) // 4096 * 4096 - 4096 * (pages - 1)
    assert ends[1] < begin
    assert kept(tmp_path, data[:begin] + bytes(len(data) - begin)) == 2


def test_zeros_in_the_middle_are_damage(tmp_path: Path) -> None:
    data, ends = written(tmp_path)
    for begin, size in ((ends[0], 24), (ends[0], 5_000), (ends[0] + 3, 4), (ends[1] + 50, 8_000)):
        holed = data[:begin] + bytes(size) + data[begin + size :]
        with pytest.raises(DamagedDirectoryError, match=r"from a (backup|copy)"):
            kept(tmp_path, holed)


def test_a_full_disk_is_not_taken_for_damage(disk: Path) -> None:  # noqa: F811 - the fixture
    store = RocksDBStore(disk / "store")
    store.write({f"key {number}": bytes(1000) for number in range(100)})
    store.close()
    leave_room(disk, 0)
    with pytest.raises(DamagedDirectoryError, match=r"No space left.*; check the disk"):
        RocksDBStore(disk / "store")
