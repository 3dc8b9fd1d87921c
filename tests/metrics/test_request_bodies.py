"""Long bodies: how long they may be, how slow, and how many at once."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from email.message import Message
from io import BufferedReader
from select import select
from typing import TypeAlias

import pytest

from idlestate.web.http_reply import Reply
from idlestate.web.http_server import HttpServer, Request, Service
from idlestate.web.request_bodies import MAX_SHORT_BYTES, MAX_UPLOADS, Uploads, refuse_body
from idlestate.web.request_reader import RequestReader, TooLongError

Sent: TypeAlias = tuple[socket.socket, RequestReader]


@pytest.fixture
def sent() -> Iterator[Sent]:
    """A client, and what the server reads of it: at most 10 bytes before it expects more."""
    client, server = socket.socketpair()
    with client, server:
        yield client, RequestReader(server, 60.0, 10)


@pytest.mark.parametrize(
    ("length", "status"),
    [("0", None), ("100", None), ("101", 413), ("9" * 5000, 413), ("-1", 400), ("1e3", 400)],
)
def test_a_body_is_as_long_as_its_path_accepts(length: str, status: int | None) -> None:
    headers = Message()
    headers["Content-Length"] = length
    reply = refuse_body(headers, 100)
    assert (reply and reply.status) == status


def test_few_long_bodies_are_taken_at_once_and_short_ones_always(sent: Sent) -> None:
    uploads, (_, body) = Uploads(), sent
    rooms = [uploads.room(MAX_SHORT_BYTES + 1, body, 4.0) for _ in range(MAX_UPLOADS + 1)]
    assert [room.__enter__() for room in rooms] == [True] * MAX_UPLOADS + [False]
    with uploads.room(MAX_SHORT_BYTES, body, 4.0) as has_room:
        assert has_room
    rooms[0].__exit__(None, None, None)
    with uploads.room(MAX_SHORT_BYTES + 1, body, 4.0) as has_room:
        assert has_room


def test_a_long_body_is_read_whole_and_no_byte_more(sent: Sent) -> None:
    client, body = sent
    client.sendall(b"x" * 31)
    body.expect(20, 4.0)
    assert BufferedReader(body).read(30) == b"x" * 30
    with pytest.raises(TooLongError):
        body.read(1)


@pytest.fixture
def taken() -> list[int]:
    return []


@pytest.fixture
def server(taken: list[int]) -> Iterator[HttpServer]:
    """A server that notes the length of each body."""

    def answer(request: Request) -> Reply:
        taken.append(len(request.body))
        return Reply(b"ok\n")

    service = Service("test", answer, takes_posts=True, most_body_bytes=lambda _: 100_000)
    with HttpServer(service, 0) as server:
        yield server


def connected(server: HttpServer, length: int) -> socket.socket:
    """A client that has sent the head of a request."""
    client = socket.create_connection((server.host, server.port), 10.0)
    client.sendall(f"POST / HTTP/1.0\r\nContent-Length: {length}\r\n\r\n".encode())
    return client


def reply_of(client: socket.socket) -> bytes:
    with client.makefile("rb") as file:
        return file.read()


def test_a_long_body_that_stops_halfway_is_not_answered(
    server: HttpServer, taken: list[int]
) -> None:
    with connected(server, 60_000) as client:
        client.sendall(b"x" * 30_000)
        client.shutdown(socket.SHUT_WR)
        assert reply_of(client) == b""
    assert taken == []
    with connected(server, 60_000) as client:
        client.sendall(b"x" * 60_000)
        assert reply_of(client).startswith(b"HTTP/1.0 200 OK")
    assert taken == [60_000]


def test_uploads_that_hang_leave_room_for_ordinary_requests(
    server: HttpServer, taken: list[int]
) -> None:
    with ExitStack() as stack:
        uploads = [stack.enter_context(connected(server, 60_000)) for _ in range(MAX_UPLOADS + 1)]
        (refused, *others), _, _ = select(uploads, [], [], 10.0)
        assert others == []
        assert reply_of(refused).startswith(b"HTTP/1.0 503 ")
        with connected(server, 3) as client:
            client.sendall(b"abc")
            assert reply_of(client).startswith(b"HTTP/1.0 200 OK")
    assert taken == [3]
