"""Disks that fill up or fail, files that are damaged, clocks that are set, clients that vanish."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from idlestate.backends.sidecar.declaration import Declaration
from idlestate.backends.sidecar.errors import DamagedError, SidecarError
from idlestate.retention.policy import TimeDomain
from idlestate.service.sidecar.background import Background
from idlestate.service.sidecar.ticks import Ticks
from idlestate.timers.steady_clock import SteadyClock
from tests.backends.sidecar_world import (
    KEYS,
    RULE,
    SPEC,
    UID,
    World,
    batch,
    policy_processing,
)
from tests.reference import Rule
from tests.service.sidecar_process import COMMAND, OPERATOR, Sidecar
from tests.service.sidecar_process import UID as UID_OF_CLIENTS
from tests.small_disk import enlarge, mounted
from tests.timers.test_steady_clock import DAY_MS, HOUR_MS, SetClock


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("f")


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    with mounted(folder / "disk", 1024) as place:
        yield place


def add(client: Any, number: int) -> None:
    users = [f"{number}-{at}" for at in range(200)]
    client.add_many({"user": [*users, "same"], "amount": [1] * 201})


def fill(client: Any) -> int:
    """Write until that is refused plainly; how many writes were acknowledged."""
    for number in range(1000):
        try:
            add(client, number)
        except SidecarError as error:
            text = str(error)
            break
    else:
        raise AssertionError("nothing went wrong")
    assert "see to the disk" in text, text
    return number


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_a_full_disk_is_told_plainly_and_loses_nothing(small_disk: Path, backend: str) -> None:
    sidecar = Sidecar(small_disk, backend=backend).start()
    with sidecar.client() as client:
        acknowledged = fill(client)
        assert acknowledged > 2
        begun_s = monotonic()
        assert sidecar.ask("/metrics")[0] == 200
        assert monotonic() - begun_s < 1
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


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
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
        acknowledged = 1 + fill(client)
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
    assert "holds the state of backend: heap" in done.stderr


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
    assert "idlestate_sidecar_exchanges 0.0" in sidecar.ask("/metrics")[1]
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
    for _ in range(12):
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
    begun_s = monotonic()
    assert sidecar.ask("/metrics")[0] == 200
    assert monotonic() - begun_s < 1
    for link in half_sent:
        link.close()
    assert sidecar.stop() == 0


@pytest.mark.parametrize("by_ms", [DAY_MS, -HOUR_MS])
def test_rule_7_a_clock_that_is_set_removes_nothing(folder: Path, by_ms: int) -> None:
    from idlestate.config.sidecar_models import Sidecar as Settings

    machine = SetClock()
    clock = SteadyClock(machine)
    world = World("heap", folder / "state")
    world.clock = clock  # type: ignore[assignment]
    world.crash()
    ticks = Ticks()
    settings = Settings.model_validate({"directory": str(folder)})
    background = Background([world.operator], clock, settings, ticks.stopping)  # type: ignore[arg-type]
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


def test_an_operator_that_is_damaged_keeps_no_other_from_its_sweeps(folder: Path) -> None:
    from idlestate.config.sidecar_models import Sidecar as Settings

    world = World("heap", folder / "state")
    declaration = Declaration.of("second", SPEC, TimeDomain.PROCESSING, 4)
    world.host.declare(declaration, policy_processing(RULE))
    for uid in (UID, "second"):
        world.operator = world.host[uid]
        world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.store.write({key: None for key, _ in world.store.scan(f"s/{UID}/")})
    world.crash()
    world.clock.advance(RULE.idle_max_ms)
    settings = Settings.model_validate({"directory": str(folder)})
    clock = SteadyClock(world.clock)
    background = Background(world.host, clock, settings, Ticks().stopping)
    with pytest.raises(DamagedError, match=f"s/{UID}/.* is missing"):
        background.sweep()
    assert world.host["second"].sizes().live_keys == 0
    assert world.host["second"].sizes().expired_kept == len(KEYS)
    world.close()


class SlowClock(SteadyClock):
    """Every step takes a slice."""

    steps = 0

    def monotonic_s(self) -> float:
        self.steps += 1
        return float(self.steps)


class Rests(threading.Event):
    """Never set; what is done while somebody waits for it."""

    def __init__(self, noted: Callable[[float], None]) -> None:
        super().__init__()
        self._noted = noted

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._noted(timeout)
        return False


@pytest.mark.parametrize(("late_ms", "rest"), [(0, 3), (60_000, 1)])
def test_a_sweep_that_is_far_behind_rests_for_less(folder: Path, late_ms: int, rest: int) -> None:
    from idlestate.config.sidecar_models import Sidecar as Settings

    rests: list[float] = []
    world = World("heap", folder / "state")
    world.write("w", 0, "add", [(f"key-{number}", 1) for number in range(8_000)])
    world.clock.advance(RULE.idle_max_ms + late_ms)
    settings = Settings.model_validate({"directory": str(folder)})
    Background(world.host, SlowClock(world.clock), settings, Rests(rests.append)).sweep()
    assert len(rests) > 1
    assert set(rests[:-1]) == {rest * 10 / 1000}
    assert world.operator.sizes().live_keys == 0
    world.close()


def test_operators_are_swept_by_turns_and_the_delay_is_told_meanwhile(folder: Path) -> None:
    from idlestate.config.sidecar_models import Sidecar as Settings

    world = World("heap", folder / "state")
    declaration = Declaration.of("second", SPEC, TimeDomain.PROCESSING, 4)
    world.host.declare(declaration, policy_processing(RULE))
    for uid in (UID, "second"):
        world.operator = world.host[uid]
        world.write("w", 0, "add", [(f"key-{number}", 1) for number in range(8_000)])
    world.clock.advance(RULE.idle_max_ms + 1)
    seen: list[tuple[int, int, int]] = []

    def look(_: float) -> None:
        live = [world.host[uid].sizes().live_keys for uid in (UID, "second")]
        seen.append((live[0], live[1], background.behind_ms))

    settings = Settings.model_validate({"directory": str(folder)})
    background = Background(world.host, SlowClock(world.clock), settings, Rests(look))
    background.sweep()
    assert seen[1][0] < 8_000
    assert seen[1][1] < 8_000
    assert all(behind == 1 for *_, behind in seen)
    assert background.behind_ms == 0
    assert [world.host[uid].sizes().live_keys for uid in (UID, "second")] == [0, 0]
    world.close()


def test_what_a_long_sweep_closes_is_given_back_while_it_goes_on(folder: Path) -> None:
    from idlestate.config.sidecar_models import Sidecar as Settings

    world = World("heap", folder / "state")
    for number in range(8):
        world.write("w", number, "add", [(f"{number}-{at}", 1) for at in range(2_000)])
        world.clock.advance(10)
    world.clock.advance(RULE.idle_max_ms)
    before = [shard.current.rows for shard in world.operator.state.shards]
    given_back = []

    def look(_: float) -> None:
        for rows, shard in zip(before, world.operator.state.shards, strict=True):
            given_back.append(shard.current.live > 0 and shard.current.rows < rows)

    settings = Settings.model_validate({"directory": str(folder)})
    Background(world.host, SlowClock(world.clock), settings, Rests(look)).sweep()
    assert any(given_back)
    world.close()


def test_a_policy_that_was_reloaded_is_not_told_as_a_delay(folder: Path) -> None:
    """When lives end by it nobody knows before the next sweep, which a batch may hold up."""
    from idlestate.config.sidecar_models import Sidecar as Settings

    world = World("heap", folder / "state")
    world.write("w", 0, "add", [(key, 1) for key in KEYS])
    world.operator.batches.open(world.attempt(batch(world, 0, *KEYS), 0, "e"))
    world.reload(Rule(ttl_ms=HOUR_MS))
    settings = Settings.model_validate({"directory": str(folder)})
    background = Background(world.host, SteadyClock(world.clock), settings, threading.Event())
    background.sweep()
    assert background.behind_ms == 0
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
