"""Too many connections, or too few file descriptors: who is served all the same, and who is not."""

import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from idlestate.metrics.http_server import HttpServer, Reply, Request, Service

PATIENCE_S = 10.0
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
