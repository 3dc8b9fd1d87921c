"""Who may speak to a sidecar, and that nobody who does keeps others out."""

import contextlib
import os
import socket
import stat
import subprocess
import threading
from base64 import b64encode
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.errors import CannotConnectError, DoesNotFitError
from idlestate.sidecar.protocol.message import PROTOCOL
from tests.lengths import short_and_long
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import COMMAND, UID, said, users


def test_sockets_are_their_owners_alone(made: Any) -> None:
    sidecar = made().start()
    for path in (sidecar.data_socket, sidecar.control_socket):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE((sidecar.folder / "state").stat().st_mode) == 0o700


@pytest.mark.parametrize("workers", [1, 2])
def test_folders_that_are_made_for_sockets_may_be_entered_by_their_owner(
    made: Any, folder: Path, workers: int
) -> None:
    place = folder / "deep" / "er"
    made(workers=workers, data=f"unix:{place / 'd.sock'}").start()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.parent.stat().st_mode) & 0o700 == 0o700
    for path in place.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_beyond_this_machine_it_does_not_start_without_a_token_or_certificates(made: Any) -> None:
    sidecar = made(data="0.0.0.0:0", tls={"cert_file": "cert.pem", "key_file": "key.pem"})
    sidecar.write_file()
    refused = subprocess.run(
        [*COMMAND, "serve", str(sidecar.file)], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "is open to other machines" in refused.stderr


def test_a_token_beyond_this_machine_is_enough_and_warned_about_without_tls(made: Any) -> None:
    sidecar = made(data="0.0.0.0:0")
    token = sidecar.folder / "token"
    token.write_text("0123456789abcdef0123\n")
    sidecar.settings["token_file"] = str(token)
    sidecar.write_file()
    told = said("check", sidecar.file)
    assert told.exit_code == 0
    assert "WARNING" in told.stderr
    assert "sees the token and all rows" in told.stderr
    place = sidecar.start_told().removeprefix("data at ").partition(",")[0]
    place = place.replace("0.0.0.0", "127.0.0.1")
    with pytest.raises(CannotConnectError, match="requires authentication"):
        Connection(Address(place), patience_s=0).call("hello")
    known = Connection(Address(place, str(token)), patience_s=0)
    assert known.call("hello").header["operators"] == [UID]
    shown = {"Authorization": "Bearer 0123456789abcdef0123"}
    status, answer = sidecar.ask("/-/reload", "POST", **shown)
    assert (status, "WARNING" in answer["result"]) == (200, True)


def test_who_shows_no_token_is_told_alive_and_never_ready(made: Any) -> None:
    sidecar = made()
    token, other = sidecar.folder / "token", sidecar.folder / "other"
    token.write_text("0123456789abcdef0123\n")
    other.write_text("another-token-of-20-characters\n")
    sidecar.settings["token_file"] = str(token)
    sidecar.start()
    for words, code, told in (
        ([], 1, "pass --token-file PATH"),
        (["--token-file", str(other)], 1, "pass --token-file PATH"),
        (["--token-file", str(token)], 0, "ready"),
        (["--live"], 0, "authentication required"),
    ):
        done = said("health", f"unix:{sidecar.control_socket}", *words)
        assert done.exit_code == code
        assert told in done.stdout + done.stderr


def test_without_the_token_nothing_is_told_on_either_plane(made: Any) -> None:
    sidecar = made()
    token = sidecar.folder / "token"
    token.write_text("0123456789abcdef0123\n")
    sidecar.settings["token_file"] = str(token)
    sidecar.start()
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "0123456789abcdef0123"},
        _password("wrong"),
        {"Authorization": "Basic not base64"},
        {"Authorization": "Basic "},
    ):
        for path in ("/metrics", "/healthz", "/operators", "/nowhere"):
            status, told = sidecar.ask(path, **headers)
            assert status == 401
            assert told["error"].startswith("authentication required")
    good = {"Authorization": "Bearer 0123456789abcdef0123"}
    assert sidecar.ask("/healthz", **good) == (200, "ok\n")
    assert sidecar.ask("/healthz", **_password("0123456789abcdef0123")) == (200, "ok\n")
    place = f"unix:{sidecar.data_socket}"
    with pytest.raises(CannotConnectError, match="requires authentication"):
        Connection(Address(place), patience_s=0).call("hello")
    connection = Connection(Address(place, str(token)), patience_s=0)
    assert connection.call("hello").header["protocol"] == PROTOCOL
    token.write_text("another-token-of-20-characters\n")
    assert sidecar.ask("/healthz", **good)[0] == 401
    assert connection.call("hello").header["operators"] == [UID]


def test_nothing_is_changed_on_a_port_without_a_token(made: Any) -> None:
    sidecar = made(control="127.0.0.1:0")
    place = sidecar.start_told().rpartition("http://")[2]
    for path in ("/-/reload", "/-/clock/accept", f"/operators/{UID}/release"):
        connection = HTTPConnection(place, timeout=PATIENCE_S)
        connection.request("POST", path)
        reply = connection.getresponse()
        assert (reply.status, "set sidecar.token_file" in reply.read().decode()) == (403, True)
    for path in ("/metrics", f"/operators/{UID}"):
        connection = HTTPConnection(place, timeout=PATIENCE_S)
        connection.request("GET", path)
        assert connection.getresponse().status == 200


def _password(token: str) -> dict[str, str]:
    """The header of a browser where somebody entered the token as the password."""
    return {"Authorization": "Basic " + b64encode(f"anyone:{token}".encode()).decode()}


def test_a_page_of_a_browser_is_not_heard(made: Any) -> None:
    sidecar = made().start()
    assert sidecar.ask("/-/reload", "POST", Origin="http://evil.example")[0] == 403
    assert sidecar.ask("/metrics", Host="evil.example:80")[0] == 403
    assert sidecar.ask("/metrics", Host="127.0.0.1.evil.example:80")[0] == 403


@pytest.mark.parametrize("host", ["LocalHost", "127.0.0.1:9465", "127.0.1.1:9465", "[::1]:9465"])
def test_this_machine_is_heard_by_whatever_address_it_has_itself(made: Any, host: str) -> None:
    assert made().start().ask("/metrics", Host=host)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", f"/operators/{UID}", 200),
        ("GET", f"/operators/{UID}/keys?user=a", 200),
        ("GET", f"/operators/{UID}/keys", 400),
        ("GET", f"/operators/{UID}/keys?other=a", 400),
        ("GET", f"/operators/{UID}/keys?user=a&more=b", 400),
        ("GET", f"/operators/{UID}/keys?user=%ff", 400),
        ("GET", "/operators/nobody", 404),
        ("GET", "/operators/..%2f..%2fetc/keys?user=a", 404),
        ("GET", "/nowhere", 404),
        ("POST", "/metrics", 405),
        ("GET", "/-/reload", 405),
        ("POST", "/operators/nobody/release", 404),
        ("POST", "/-/clock/accept", 200),
        ("PUT", "/operators", 405),
    ],
)
def test_the_control_plane_answers(made: Any, method: str, path: str, status: int) -> None:
    found, told = made().start().ask(path, method)
    assert found == status
    assert found == 200 or list(told) == ["error"]


def test_garbage_on_either_plane_hurts_nobody(made: Any) -> None:
    sidecar = made().start()
    held = []
    for path in (sidecar.data_socket, sidecar.control_socket):
        for junk in (
            b"\x00" * 100_000,
            b"GET / HTTP/1.1\r\nHost",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ):
            link = socket.socket(socket.AF_UNIX)
            link.connect(str(path))
            with contextlib.suppress(OSError):
                link.sendall(junk)
            held.append(link)
    assert sidecar.ask("/metrics")[0] == 200
    with sidecar.client() as client:
        client.add_many({"user": ["a"], "amount": [1]})
        for body in (
            b"",
            b"IDM1",
            b"IDM1\xff\xff\xff\xff",
            os.urandom(1000),
            b"IDM1\x00\x00\x00\x02[]",
        ):
            raw = flight.FlightClient(f"grpc+unix://{sidecar.data_socket}")
            (result,) = raw.do_action(flight.Action("write", pa.py_buffer(body)))
            assert b'"error"' in result.body.to_pybytes()
            raw.close()
        assert users(client.get_many({"user": ["a"]})) == {"a": (1, 1)}
    for link in held:
        link.close()


def test_a_60_mb_call_and_bad_rows_are_refused_plainly(made: Any) -> None:
    sidecar = made().start()
    with sidecar.client() as client:
        with pytest.raises(DoesNotFitError, match="send at most 32 MB"):
            client.add_many({"user": ["x" * 60_000_000], "amount": [1]})
        with pytest.raises(DoesNotFitError, match="no column amount"):
            client.add_many({"user": ["a"]})
        with pytest.raises(DoesNotFitError, match="invalid rows"):
            client.add_many({"user": ["a"], "amount": ["many"]})
        with pytest.raises(DoesNotFitError, match="no operator 'nobody'"):
            client._connection.call("get", {"uid": "nobody"}, b"")
        client.add_many({"user": ["a"], "amount": [2**62]})
        with pytest.raises(DoesNotFitError, match="sum"):
            client.add_many({"user": ["a"], "amount": [2**62]})
        assert users(client.get_many({"user": ["a"]})) == {"a": (1, 2**62)}


def test_idle_connections_beyond_the_first_limit_of_files_keep_nobody_out(made: Any) -> None:
    sidecar = made().start(["prlimit", "--nofile=256:4096"])
    with contextlib.ExitStack() as held:
        for _ in range(300):
            link = held.enter_context(socket.socket(socket.AF_UNIX))
            link.connect(str(sidecar.data_socket))
        assert sidecar.ask("/metrics")[0] == 200
        with sidecar.client() as client:
            client.add_many({"user": ["a"], "amount": [1]})
            assert users(client.get_many({"user": ["a"]})) == {"a": (1, 1)}


@short_and_long("clients", 50, 200)
def test_many_clients_at_once_count_each_write_once(made: Any, clients: int) -> None:
    sidecar = made().start()
    failed: list[Exception] = []

    def write(number: int) -> None:
        try:
            with sidecar.client(f"w{number}") as client:
                for _ in range(2):
                    client.add_many({"user": ["a", f"u{number}"], "amount": [1, 1]})
        except Exception as error:  # noqa: BLE001 - told by the main thread
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    assert sidecar.ask("/metrics")[0] == 200
    for thread in threads:
        thread.join(PATIENCE_S * 2)
    assert failed == []
    with sidecar.client() as client:
        assert users(client.get_many({"user": ["a"]})) == {"a": (2 * clients, 2 * clients)}
