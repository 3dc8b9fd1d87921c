"""The sidecar's process: starts, stops, reloads, dies."""

import signal
import socket
import struct
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import AwayError
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import COMMAND, OPERATOR, UID, users, wait_for


def test_a_client_writes_and_looks_up(made: Any) -> None:
    sidecar = made().start()
    with sidecar.client() as client:
        client.add_many({"user": ["a", "a", "b"], "amount": [1, 2, 5]})
        client.put_many([{"user": "b", "amount": 9}])
        client.touch({"user": ["a", "nobody"]})
        found = client.get_many({"user": ["a", "b", "nobody"]})
        assert users(found) == {"a": (2, 3), "b": (1, 9)}
        assert found.schema.metadata == {b"batch_id": b"-1"}
        client.remove_many({"user": ["a"]})
        assert users(client.get_many(pa.table({"user": ["a", "b"]}))) == {"b": (1, 9)}
    assert sidecar.stop() == 0


def test_keys_expire_on_time_and_leave_by_the_expired_stream(made: Any) -> None:
    sidecar = made(operators={UID: OPERATOR | {"policy": "short"}}, sweep_every="20ms").start()
    with sidecar.client() as client:
        client.add_many({"user": [f"u{at}" for at in range(100)], "amount": [1] * 100})
        client.acknowledge("downstream", 0)
        wait_for(lambda: sum(map(len, client.expired())) == 100)
        (rows,) = client.expired(since=40)
        assert rows.column("seq").to_pylist() == list(range(40, 100))
        assert set(rows.column("reason").to_pylist()) == {"idle"}
        client.acknowledge("downstream", 100)
    assert (
        f'idlestate_keys_expired_total{{operator="{UID}",reason="idle"}} 100'
        in (sidecar.ask("/metrics")[1])
    )


@pytest.mark.parametrize("backend", ["rocksdb", "heap"])
def test_what_was_acknowledged_survives_kill_9(made: Any, backend: str) -> None:
    sidecar = made(backend=backend).start()
    with sidecar.client("w") as client:
        client.add_many({"user": ["a"], "amount": [1]})
    assert sidecar.stop(signal.SIGKILL) == -signal.SIGKILL
    sidecar.start()
    with sidecar.client("w") as client:
        client.add_many({"user": ["a"], "amount": [2]})
        assert users(client.get_many({"user": ["a"]})) == {"a": (2, 3)}


def test_a_client_waits_for_a_sidecar_that_is_away(made: Any) -> None:
    sidecar = made().start()
    with sidecar.client("w") as client:
        client.add_many({"user": ["a"], "amount": [1]})
        sidecar.stop(signal.SIGKILL)
        done = threading.Thread(target=lambda: client.add_many({"user": ["a"], "amount": [1]}))
        done.start()
        sidecar.start()
        done.join(PATIENCE_S)
        assert users(client.get_many({"user": ["a"]})) == {"a": (2, 2)}


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_sigterm_in_the_middle_of_writes_finishes_or_hands_them_back(
    made: Any, backend: str
) -> None:
    """Each counts once: it was answered, or its client makes it again of who comes next."""
    sidecar = made(backend=backend).start()
    under_way, over = threading.Barrier(5), threading.Event()
    counted: list[int] = []

    def write(number: int) -> None:
        writes = 0
        with sidecar.client(f"w{number}") as client:
            while writes < 2 or not over.is_set():
                client.add_many({"user": ["a"], "amount": [1]})
                writes += 1
                if writes == 1:
                    under_way.wait(PATIENCE_S)
        counted.append(writes)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    under_way.wait(PATIENCE_S)
    assert sidecar.stop() == 0
    sidecar.start()
    over.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(counted) == 4
    with sidecar.client() as client:
        assert users(client.get_many({"user": ["a"]})) == {"a": (sum(counted),) * 2}


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """As HTTP/2 has it."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def half_a_call(link: socket.socket) -> None:
    """Begin one, and never end it."""
    headers = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/arrow.flight.protocol.FlightService/DoAction",
        b":authority": b"localhost",
        b"content-type": b"application/grpc",
    }
    words = [bytes([len(word)]) + word for pair in headers.items() for word in pair]
    packed = b"".join(b"\0" + name + value for name, value in zip(*[iter(words)] * 2, strict=True))
    settings, begin = frame(4, 0, 0, b""), frame(1, 4, 1, packed)
    half = frame(0, 0, 1, struct.pack(">BI", 0, 1000) + b"half")
    link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + begin + half)
    assert link.recv(1)


@pytest.mark.parametrize(
    "settings", [{"workers": 2}, pytest.param({"data": "127.0.0.1:0"}, marks=pytest.mark.long)]
)
def test_half_of_a_call_keeps_nobody_from_stopping(made: Any, settings: dict[str, Any]) -> None:
    sidecar = made(**settings)
    place = sidecar.start_told().removeprefix("data at ").partition(",")[0]
    with ExitStack() as held:
        if place.startswith("unix:"):
            for ending in ("", ".0", ".1"):
                link = held.enter_context(socket.socket(socket.AF_UNIX))
                link.connect(place.removeprefix("unix:") + ending)
                half_a_call(link)
        else:
            host, _, port = place.rpartition(":")
            half_a_call(held.enter_context(socket.create_connection((host, int(port)))))
        assert sidecar.stop() == 0


def test_a_sidecar_that_is_not_there_is_told_with_the_way_out(tmp_path: Path) -> None:
    connection = Connection(Address(f"unix:{tmp_path / 'nobody'}"), patience_s=0.2)
    with pytest.raises(AwayError, match="idlestate serve FILE"):
        connection.call("hello")


def test_a_second_instance_is_refused_with_the_pid_of_the_first(made: Any) -> None:
    sidecar = made().start()
    second = subprocess.run(
        [*COMMAND, "serve", str(sidecar.file)], capture_output=True, text=True, check=False
    )
    assert second.returncode == 75
    assert f"is in use by the sidecar with pid {sidecar.process.pid}" in second.stderr
    assert sidecar.ask("/healthz") == (200, "ok\n")


@pytest.mark.parametrize("plane", ["data", pytest.param("control", marks=pytest.mark.long)])
def test_a_socket_at_which_another_sidecar_serves_is_left_to_it(made: Any, plane: str) -> None:
    first = made().start()
    taken = first.folder / "state" / f"{plane}.sock"
    second = made(**{plane: f"unix:{taken}"})
    second.write_file()
    refused = subprocess.run(
        [*COMMAND, "serve", str(second.file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert refused.returncode == 1
    assert f"cannot serve {plane} on " in refused.stderr
    assert "another program" in refused.stderr
    with first.client() as client:
        client.add_many({"user": ["a"], "amount": [1]})
    assert first.ask("/healthz") == (200, "ok\n")
    first.stop(signal.SIGKILL)  # which leaves its sockets behind
    second.start_told()


def test_sighup_takes_a_good_file_and_refuses_a_bad_one_whole(made: Any) -> None:
    sidecar = made().start()
    sidecar.write_file(operators={UID: OPERATOR | {"policy": "short"}})
    sidecar.process.send_signal(signal.SIGHUP)
    assert "was reloaded" in sidecar.next_line()
    assert sidecar.ask("/policies")[1][UID]["idle_min_ms"] == 50
    sidecar.write_file(operators={UID: OPERATOR, "more": OPERATOR | {"policy": "nobody"}})
    status, answer = sidecar.ask("/-/reload", "POST")
    assert status == 400
    assert "unknown policy" in answer["error"]
    assert sidecar.ask("/policies")[1][UID]["idle_min_ms"] == 50
    assert [each["uid"] for each in sidecar.ask("/operators")[1]] == [UID]


def test_a_reload_that_needs_a_restart_is_refused(made: Any) -> None:
    sidecar = made().start()
    sidecar.write_file(sync=True)
    status, answer = sidecar.ask("/-/reload", "POST")
    assert status == 400
    assert "sidecar.sync: changed, which needs a restart" in answer["error"]


def test_an_operator_that_changed_is_refused_at_the_start(made: Any) -> None:
    sidecar = made().start()
    sidecar.stop()
    sidecar.write_file(operators={UID: OPERATOR | {"shards": 8}})
    again = subprocess.run(
        [*COMMAND, "serve", str(sidecar.file)], capture_output=True, text=True, check=False
    )
    assert again.returncode == 1
    assert "shards was 4, is now 8" in again.stderr


def test_it_ends_with_the_process_that_holds_its_input(made: Any) -> None:
    sidecar = made()
    sidecar.write_file()
    process = subprocess.Popen(
        [*COMMAND, "serve", str(sidecar.file), "--while-input-is-open"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stdin is not None
    assert process.stderr.readline().startswith("data at ")
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
    process.stderr.close()


@pytest.mark.parametrize(
    ("setting", "told"),
    [("data", "set data: unix:PATH"), ("control", "give a shorter one")],
)
def test_a_socket_whose_path_is_too_long_is_refused_with_the_way_out(
    made: Any, setting: str, told: str
) -> None:
    sidecar = made(**{setting: "unix:" + "long/" * 30 + "plane.sock"})
    sidecar.write_file()
    done = subprocess.run(
        [*COMMAND, "serve", str(sidecar.file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"at most 107 bytes; {told}" in done.stderr
