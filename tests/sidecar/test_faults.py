"""Disks that fill up or fail, files that are damaged, clocks that are set, clients that vanish."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from idlestate.sidecar.protocol.errors import DamagedDirectoryError
from idlestate.sidecar.server.job_scheduler import Scheduler
from idlestate.sidecar.server.sweep_and_cleanup_jobs import Background
from idlestate.timers.steady_clock import SteadyClock
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import COMMAND, OPERATOR, Sidecar, add, fill
from tests.sidecar.sidecar_process import UID as UID_OF_CLIENTS
from tests.sidecar.sidecar_world import (
    RULE,
    World,
)
from tests.small_disk import enlarge, leave_room, mounted
from tests.timers.test_steady_clock import DAY_MS, HOUR_MS, SetClock


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    with mounted(folder / "disk", 1024) as place:
        yield place


@pytest.mark.parametrize("backend", [pytest.param("heap", marks=pytest.mark.long), "rocksdb"])
def test_a_full_disk_is_told_plainly_and_loses_nothing(small_disk: Path, backend: str) -> None:
    sidecar = Sidecar(small_disk, backend=backend).start()
    with sidecar.client() as client:
        acknowledged = fill(client)
        assert acknowledged > 2
        assert sidecar.ask("/metrics")[0] == 200
        found = client.get_many({"user": ["same"]})
        assert found.column("n").to_pylist() == [acknowledged]
    sidecar.stop()
    for log in (small_disk / "state" / "rocksdb").glob("LOG*"):
        log.unlink()
    enlarge(small_disk, 40 * 1024)
    sidecar.start()
    with sidecar.client() as client:
        found = client.get_many({"user": ["same"]})
        assert found.column("n").to_pylist() == [acknowledged]
        add(client, acknowledged)
    assert sidecar.stop() == 0


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_sigterm_on_a_full_disk_ends_with_0(folder: Path, workers: int) -> None:
    with mounted(folder / "disk", 8 * 1024) as disk:
        sidecar = Sidecar(disk, workers=workers).start()
        with sidecar.client() as client:
            add(client, 0)
            leave_room(disk, 0)
            os.kill(sidecar.pid, signal.SIGTERM)
            _, said = sidecar.process.communicate(timeout=PATIENCE_S)
            assert "Traceback" not in said
            assert sidecar.process.returncode == 0
            enlarge(disk, 40 * 1024)
            sidecar.start()
            assert client.get_many({"user": ["same"]}).column("n").to_pylist() == [1]
        assert sidecar.stop() == 0


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_start_on_what_is_there_writes_nothing(folder: Path, workers: int) -> None:
    """The disk may be full."""

    def sizes() -> dict[Path, int]:
        return {log: log.stat().st_size for log in folder.rglob("log-*")}

    sidecar = Sidecar(folder, backend="heap", workers=workers).start()
    with sidecar.client() as client:
        add(client, 0)
    sidecar.stop()
    before = sizes()
    assert sidecar.start().stop() == 0
    assert sizes() == before


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("backend", [pytest.param("heap", marks=pytest.mark.long), "rocksdb"])
def test_an_fsync_that_fails_is_told_and_what_was_acknowledged_stays(
    folder: Path, backend: str
) -> None:
    sidecar = Sidecar(folder, backend=backend, sync=True).start()
    with sidecar.client() as client:
        add(client, 0)
    sidecar.stop()
    trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]
    for call in ("fsync", "fdatasync"):
        trace += ["-e", f"inject={call}:error=EIO:when=6+"]
    sidecar.start(before=trace)
    with sidecar.client() as client:
        acknowledged = 1 + fill(client, DamagedDirectoryError)
        assert sidecar.ask("/healthz")[0] == 200
    # Its own process, which strace would let go on.
    os.kill(int((folder / "state" / "lock").read_text()), signal.SIGKILL)
    sidecar.stop()
    sidecar.start()
    with sidecar.client() as client:
        assert client.get_many({"user": ["same"]}).column("n").to_pylist()[0] >= acknowledged
    sidecar.stop()


def test_a_damaged_log_is_refused_with_its_name(folder: Path) -> None:
    sidecar = Sidecar(folder, backend="heap").start()
    with sidecar.client() as client:
        add(client, 0)
    sidecar.stop()
    (log,) = (folder / "state" / "heap").iterdir()
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    done = subprocess.run(
        [*COMMAND, "serve", str(sidecar.file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert log.name in done.stderr
    assert "Traceback" not in done.stderr


def test_another_backend_on_the_same_directory_is_refused(folder: Path) -> None:
    sidecar = Sidecar(folder, backend="heap").start()
    sidecar.stop()
    sidecar.write_file(backend="rocksdb")
    done = subprocess.run(
        [*COMMAND, "serve", str(sidecar.file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "has the state of backend: heap" in done.stderr


VANISHING = """
import sys
import pyarrow as pa
from pyarrow import flight
client = flight.FlightClient("grpc+unix://" + sys.argv[1])
print("here", flush=True)
while True:
    list(client.do_action(flight.Action("write", pa.py_buffer(bytes(20_000_000)))))
"""


def test_clients_that_vanish_in_the_middle_leave_nothing_behind(folder: Path) -> None:
    sidecar = Sidecar(folder).start()
    for _ in range(3):
        client = subprocess.Popen(
            [sys.executable, "-c", VANISHING, str(sidecar.data_socket)], stdout=subprocess.PIPE
        )
        assert client.stdout is not None
        assert client.stdout.readline()
        client.kill()
        client.wait()
        client.stdout.close()
    assert "idlestate_sidecar_exchanges 0\n" in sidecar.ask("/metrics")[1]
    with sidecar.client() as good:
        add(good, 0)
    assert sidecar.stop() == 0


def resident_bytes(sidecar: Sidecar) -> int:
    assert sidecar.process is not None
    status = Path(f"/proc/{sidecar.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_calls_that_are_too_long_or_not_whole_leave_no_memory_behind(folder: Path) -> None:
    sidecar = Sidecar(folder).start()
    location, size = f"grpc+unix://{sidecar.data_socket}", 60_000_000
    grown, half_sent = [], []
    for _ in range(8):
        client = flight.FlightClient(location)
        (told,) = client.do_action(flight.Action("write", pa.py_buffer(bytes(size))))
        assert b"send at most 32 MB" in told.body.to_pybytes()
        client.close()
        link = socket.socket(socket.AF_UNIX)
        link.connect(str(sidecar.control_socket))
        link.sendall(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        half_sent.append(link)
        grown.append(resident_bytes(sidecar))
    assert grown[-1] - grown[3] < 2 * size
    assert sidecar.ask("/metrics")[0] == 200
    for link in half_sent:
        link.close()
    assert sidecar.stop() == 0


@pytest.mark.parametrize("by_ms", [DAY_MS, -HOUR_MS])
def test_rule_7_a_clock_that_is_set_removes_nothing(folder: Path, by_ms: int) -> None:
    from idlestate.config.sidecar_settings import Sidecar as Settings

    machine = SetClock()
    clock = SteadyClock(machine)
    world = World("heap", folder / "state")
    world.clock = clock  # type: ignore[assignment]
    world.crash()
    scheduler = Scheduler()
    settings = Settings.model_validate({"directory": str(folder)})
    background = Background([world.operator], clock, settings, scheduler.stopping)  # type: ignore[arg-type]
    world.write("w", 0, "add", [("a", 1)])
    machine.set_by_ms = by_ms
    background.sweep()
    assert world.expired() == []
    world.write("w", 1, "add", [("a", 1)])
    (life,) = world.lives()
    assert (life["n"], life["written_at"]) == (2, DAY_MS)
    machine.set_by_ms = 0
    machine.advance(RULE.idle_max_ms)
    background.sweep()
    assert len(world.expired()) == 1
    world.close()


def test_a_reload_on_a_full_disk_is_told_and_ends_nothing(folder: Path, small_disk: Path) -> None:
    (small_disk / "state").mkdir(mode=0o700)
    (folder / "state").symlink_to(small_disk / "state")
    sidecar = Sidecar(folder, backend="heap").start()
    with sidecar.client() as client:
        acknowledged = fill(client)
        with (small_disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x"):
                pass
        sidecar.write_file(operators={UID_OF_CLIENTS: OPERATOR | {"policy": "short"}})
        assert sidecar.process is not None
        sidecar.process.send_signal(signal.SIGHUP)
        assert "No space left on device" in sidecar.next_line()
        assert "then reload" in sidecar.next_line()
        status, answer = sidecar.ask("/-/reload", "POST")
        assert (status, "then reload" in answer["error"]) == (503, True)
        found = client.get_many({"user": ["same"]})
        assert found.column("n").to_pylist() == [acknowledged]
    assert sidecar.stop() == 0
