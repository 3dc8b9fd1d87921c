"""Too many connections, or too few file descriptors: who is served all the same, and who is not."""

import json
import os
import resource
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from idlestate.web import connection_limits
from idlestate.web.connection_limits import Connections
from idlestate.web.http_reply import Reply
from idlestate.web.http_server import HttpServer, Request, Service
from tests.patience import PATIENCE_S

WHOLE = b"GET / HTTP/1.0\r\n\r\n"


class Server(HttpServer):
    """Answers what asks for `/slow` when it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = threading.Semaphore(0)
        super().__init__(Service("tests", self._answer), 0, max_connections=2)

    def _answer(self, request: Request) -> Reply:
        if request.path == "/slow":
            self.asked.release()
            assert self.may_answer.wait(PATIENCE_S)
        return Reply(b"answered")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def connect(server: Server, sent: bytes) -> socket.socket:
    connection = socket.create_connection((server.host, server.port), timeout=PATIENCE_S)
    connection.sendall(sent)
    return connection


def answer(connection: socket.socket) -> bytes:
    """What comes until the connection is closed."""
    received = b""
    with connection, suppress(ConnectionError):
        while chunk := connection.recv(4096):
            received += chunk
    return received


def test_who_has_dawdled_for_longest_makes_room(server: Server) -> None:
    first, second = connect(server, b"GET / HT"), connect(server, b"GET / HT")
    assert answer(connect(server, WHOLE)).endswith(b"answered")
    assert answer(first) == b""
    second.sendall(WHOLE.removeprefix(b"GET / HT"))
    assert answer(second).endswith(b"answered")


def test_who_is_being_answered_makes_no_room(server: Server) -> None:
    held = [connect(server, b"GET /slow HTTP/1.0\r\n\r\n") for _ in range(2)]
    for _ in held:
        assert server.asked.acquire(timeout=PATIENCE_S)
    assert answer(connect(server, b"")).startswith(b"HTTP/1.0 503 ")
    server.may_answer.set()
    for each in held:
        assert answer(each).endswith(b"answered")
    assert answer(connect(server, WHOLE)).endswith(b"answered")


def test_who_has_just_come_is_not_cut_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "GRACE_S", PATIENCE_S)
    few, (first, second) = Connections(1), socket.socketpair()
    with ThreadPoolExecutor() as pool, first, second:
        assert few.admit(first)
        admitted = pool.submit(few.admit, second)
        with pytest.raises(TimeoutError):
            admitted.result(0.05)
        few.forget(first)
        assert admitted.result(PATIENCE_S)
        first.send(b"not cut")


def test_who_comes_by_a_unix_socket_while_many_come_at_once_waits_for_a_turn(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its queue is full, who comes with a timeout is turned away at once."""
    go_on, admit = threading.Event(), Connections.admit

    def late(self: Connections, connection: socket.socket) -> bool:
        assert go_on.wait(PATIENCE_S)
        return admit(self, connection)

    monkeypatch.setattr(Connections, "admit", late)
    path = tmp_path_factory.mktemp("u") / "socket"
    with HttpServer(Service("tests", lambda _: Reply(b"answered")), None, str(path)):
        clients = [socket.socket(socket.AF_UNIX) for _ in range(200)]
        try:
            for each in clients:
                each.settimeout(PATIENCE_S)
                each.connect(str(path))
                each.sendall(WHOLE)
        finally:
            go_on.set()
            answers = [answer(each) for each in clients]
        assert all(each.endswith(b"answered") for each in answers)


def test_hundreds_of_idle_connections_keep_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limits, "GRACE_S", 10 * PATIENCE_S)
    with (
        HttpServer(Service("tests", lambda _: Reply(b"answered")), 0) as server,
        ExitStack() as idle,
    ):
        for _ in range(200):
            idle.enter_context(connect(server, b""))
        assert answer(connect(server, WHOLE)).endswith(b"answered")


def test_who_finds_everybody_being_answered_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "MAX_ANSWERS", 1)
    monkeypatch.setattr(connection_limits, "ANSWER_WAIT_S", 0.01)
    with Server() as server:
        held = connect(server, b"GET /slow HTTP/1.0\r\n\r\n")
        assert server.asked.acquire(timeout=PATIENCE_S)
        refused = answer(connect(server, WHOLE))
        assert refused.startswith(b"HTTP/1.0 503 ")
        assert list(json.loads(refused.partition(b"\r\n\r\n")[2])) == ["error"]
        server.may_answer.set()
        assert answer(held).endswith(b"answered")
        assert answer(connect(server, WHOLE)).endswith(b"answered")


def test_what_is_closed_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be another's by then."""
    forgotten: list[int] = []
    forget = Connections.forget

    def noted(self: Connections, connection: socket.socket) -> None:
        forgotten.append(connection.fileno())
        forget(self, connection)

    monkeypatch.setattr(Connections, "forget", noted)
    with Server() as server:
        assert answer(connect(server, WHOLE)).endswith(b"answered")
    assert [number > 0 for number in forgotten] == [True]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_who_dawdles_behind_encryption_is_cut_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run(
        ["openssl", *words, "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    in_server, in_client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    in_server.load_cert_chain(cert, key)
    in_client.load_verify_locations(cert)
    service = Service("tests", lambda _: Reply(b"answered"))

    def encrypted(server: HttpServer, sent: bytes) -> socket.socket:
        client = in_client.wrap_socket(connect(server, b""), server_hostname="localhost")
        client.sendall(sent)
        return client

    with HttpServer(service, 0, max_connections=1, tls=in_server) as server:
        dawdler = encrypted(server, b"GET / HT")
        assert answer(encrypted(server, WHOLE)).endswith(b"answered")
        assert answer(dawdler) == b""
    assert caplog.text == ""


def test_a_process_without_descriptors_answers_one_after_the_other(server: Server) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    clients = [socket.socket() for _ in range(3)]
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (clients[-1].fileno() + 20, before[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for each in clients:
            each.settimeout(PATIENCE_S)
            each.connect((server.host, server.port))
            each.sendall(WHOLE)
            received = b""
            while chunk := each.recv(4096):
                received += chunk
            assert received.endswith(b"answered")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for number in taken:
            os.close(number)
        for each in clients:
            each.close()
