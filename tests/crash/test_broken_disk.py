"""Keyed state on a full disk and on a broken one: plain errors, and no batch half applied."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from idlestate.state.backend_factory import open_backend
from idlestate.state.errors import SnapshotError, StateStoreError
from idlestate.timers.clock import FakeClock
from tests.crash.broken_disk import KEYS, ROUNDS, states
from tests.small_disk import mounted

HERE = Path(__file__).parent
WRITES = {"put_many", "update", "clear", "add_many", "add", "register_many", "register"}


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    """A library that breaks calls, compiled here."""
    if sys.platform != "linux" or (compiler := shutil.which("cc")) is None:
        pytest.skip("breaking system calls takes Linux and a C compiler")
    made = tmp_path_factory.mktemp("shim") / "broken_calls.so"
    source = HERE / "broken_calls.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


@pytest.mark.parametrize("calls", [pytest.param("read", marks=pytest.mark.long), "write"])
def test_a_broken_disk_is_refused_plainly(tmp_path, shim, calls):
    environment = os.environ | {
        "LD_PRELOAD": str(shim),
        "BROKEN_FOLDER": str(tmp_path / "db"),
        "BROKEN_FLAG": str(tmp_path / "flag"),
        "BROKEN_CALLS": calls,
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1] / "src"), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "broken_disk.py"), str(tmp_path), str(tmp_path / "flag")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    refused = {name for name, (kind, _) in said.items() if kind}
    if calls == "write":
        assert refused >= WRITES | {"new state", "compact"}, said
    else:
        assert refused >= {"value", "get_many", "list get", "keys", "sweep"}, said
    for name in refused:
        kind, text = said[name]
        assert kind in {"StateStoreError", "SnapshotError"}, (name, kind, text)
        assert str(tmp_path) in text
        assert "Input/output error" in text or "IO error" in text, (name, text)
    if calls == "write":
        check_rounds(tmp_path / "db", {ROUNDS - 1}, {tuple(range(ROUNDS))})


def check_rounds(place, values, lists):
    """Every key tells of one and the same round, which is one of these."""
    with open_backend("rocksdb", place, clock=FakeClock(0)) as backend:
        value, elements = states(backend)
        found = set(value.get_many(KEYS).to_pylist())
        assert len(found) == 1
        assert found <= values
        told = {tuple(each) for each in elements.get_many(KEYS).to_pylist()}
        assert len(told) == 1
        assert told <= lists


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 megabytes."""
    with mounted(tmp_path / "disk", 24 * 1024) as place:
        yield place


def test_a_full_disk_is_refused_plainly_and_goes_on_when_there_is_room(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    written = 0
    backend = open_backend("rocksdb", small_disk / "db", clock=FakeClock(0))
    value, elements = states(backend)

    def write_until_full():
        nonlocal written
        for number in range(100_000):
            value.put_many(KEYS, [number] * len(KEYS))
            elements.add_many(KEYS, [number] * len(KEYS))
            written = number

    with pytest.raises(StateStoreError, match="No space left") as raised:
        write_until_full()
    assert str(small_disk / "db") in str(raised.value)
    assert "free disk space" in str(raised.value)
    with pytest.raises((SnapshotError, StateStoreError), match="No space left"):
        backend.snapshot(small_disk / "snapshot").finish()
    backend.close()
    assert not list(small_disk.glob("snapshot*"))

    ballast.unlink()
    rounds = {tuple(range(count)) for count in (written + 1, written + 2)}
    check_rounds(small_disk / "db", {written, written + 1}, rounds)


def test_a_heap_snapshot_that_finds_no_room_leaves_nothing(small_disk):
    with open_backend("heap", clock=FakeClock(0)) as backend:
        value, _ = states(backend)
        keys = [f"key {number:0100}" for number in range(200_000)]
        value.put_many(keys, range(len(keys)))
        with pytest.raises(SnapshotError, match=r"No space left.*the state is unchanged"):
            backend.snapshot(small_disk / "snapshot").finish()
        assert not list(small_disk.iterdir())
        assert value.get_many(keys[:20]).to_pylist() == list(range(20))
