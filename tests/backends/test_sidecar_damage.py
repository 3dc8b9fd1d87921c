"""Damage in the middle of what a killed process left: refused, never taken for its end."""

import subprocess
import sys
from pathlib import Path

import pytest

from idlestate.backends.sidecar.errors import DamagedError
from idlestate.backends.sidecar.heap_store import HeapStore
from idlestate.backends.sidecar.rocksdb_store import RocksDBStore

STORES = {"heap": HeapStore, "rocksdb": RocksDBStore}
WRITER = """
import os, sys
from pathlib import Path
from idlestate.backends.sidecar.{module} import {store}
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
    with pytest.raises(DamagedError, match="from a copy"):
        STORES[kind](tmp_path)
    assert log.stat().st_size == len(data)
    data[at] ^= 0x10
    log.write_bytes(data)
    store = STORES[kind](tmp_path)
    assert len(dict(store.scan(""))) == 30
    store.close()
