"""The metrics server: what it answers, whom it drops, how it ends."""

import errno
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPResponse
from inspect import signature
from time import monotonic

import pytest

from idlestate.metrics.exporter import Exporter
from idlestate.metrics.exposition import MetricsServer
from idlestate.metrics.families import MetricKind, Name
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.status_page import StatusPage, Subject
from idlestate.timers.clock import FakeClock
from idlestate.web import http_server
from idlestate.web.listen_error import ListenError
from tests.patience import PATIENCE_S


@pytest.fixture
def exporter() -> Exporter:
    exporter = Exporter(FakeClock())
    live = Name("idlestate_live_keys", MetricKind.GAUGE, "Live keys.", ())
    exporter.add((live,), lambda _: {live: {(): 42}})
    return exporter


@pytest.fixture
def server(exporter: Exporter) -> Iterator[MetricsServer]:
    with MetricsServer(exporter, 0) as server:
        yield server


def ask(
    server: MetricsServer, path: str, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    with closing(HTTPConnection(server.host, server.port, timeout=PATIENCE_S)) as connection:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response, response.read()


def connect(server: MetricsServer) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=PATIENCE_S)


def read_all(connection: socket.socket) -> bytes:
    """What comes until the server closes; a connection that it cuts off ends there too."""
    received = b""
    try:
        while chunk := connection.recv(4096):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def send_until_cut(connection: socket.socket, content: bytes) -> int:
    """Send until all is sent or the server hangs up; how many bytes left."""
    sent = 0
    try:
        while sent < len(content):
            sent += connection.send(content[sent : sent + 65_536])
    except ConnectionError:
        pass
    return sent


def test_metrics_are_served_as_text(server: MetricsServer) -> None:
    response, body = ask(server, "/metrics")
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b"\nidlestate_live_keys 42\n" in body
    assert server.url == f"http://127.0.0.1:{server.port}/metrics"


def test_openmetrics_is_served_to_who_asks_for_it(server: MetricsServer) -> None:
    response, body = ask(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert response.headers["Content-Type"].startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text; version=x.y",
        "application/openmetrics-text; version=1.0.0; escaping=runes",
        "text/plain; version=;escaping=",
        ";;,,=",
        "*/*",
    ],
)
def test_an_odd_accept_header_is_answered_all_the_same(server: MetricsServer, accept: str) -> None:
    response, body = ask(server, "/metrics", Accept=accept)
    assert response.status == 200
    assert b"idlestate_live_keys 42\n" in body


def test_a_folded_accept_header_cannot_add_lines_to_the_reply(server: MetricsServer) -> None:
    with connect(server) as connection:
        connection.sendall(
            b"GET /metrics HTTP/1.0\r\n"
            b"Accept: application/openmetrics-text; version=1.0.0\r\n\tX-Evil: 1\r\n\r\n"
        )
        head = read_all(connection).partition(b"\r\n\r\n")[0]
    assert not any(line.strip().startswith(b"X-Evil") for line in head.split(b"\r\n"))


def test_health_and_query_strings(server: MetricsServer) -> None:
    assert ask(server, "/-/healthy")[1] == b"idlestate is healthy\n"
    assert ask(server, "/metrics?name[]=x")[0].status == 200


def test_head_has_no_body(server: MetricsServer) -> None:
    response, body = ask(server, "/metrics", "HEAD")
    assert response.status == 200
    assert int(response.headers["Content-Length"]) > 0
    assert body == b""


@pytest.mark.parametrize(
    "path", ["/metrics/", "/-/ready", "/../metrics", "/operators/x", "/%2e%2e/etc/passwd"]
)
def test_other_paths_are_not_found(server: MetricsServer, path: str) -> None:
    response, body = ask(server, path)
    assert response.status == 404
    assert b"try /metrics" in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(server: MetricsServer, method: str) -> None:
    response, _ = ask(server, "/metrics", method)
    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")


def test_each_connection_carries_one_request(server: MetricsServer) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n")
        assert read_all(connection).endswith(b"idlestate is healthy\n")


def test_the_version_of_python_is_not_told(server: MetricsServer) -> None:
    assert "Python" not in str(ask(server, "/metrics")[0].headers)


def test_a_half_sent_request_is_closed_within_five_seconds() -> None:
    assert signature(MetricsServer).parameters["request_timeout_s"].default < 5


@pytest.mark.parametrize("sent", [b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"])
def test_a_request_that_stops_anywhere_is_closed_after_the_timeout(
    exporter: Exporter, sent: bytes
) -> None:
    begun_s = monotonic()
    with MetricsServer(exporter, 0, request_timeout_s=0.3) as server, connect(server) as connection:
        connection.sendall(sent)
        assert read_all(connection) == b""
    assert monotonic() - begun_s >= 0.3


def test_a_request_that_drips_in_is_closed_after_the_timeout(exporter: Exporter) -> None:
    begun_s = monotonic()
    with MetricsServer(exporter, 0, request_timeout_s=1.0) as server, connect(server) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n")
        connection.settimeout(0.2)
        closed = False
        while not closed and monotonic() - begun_s < PATIENCE_S:
            try:
                closed = connection.recv(1) == b""
            except TimeoutError:  # still open: one more header
                connection.sendall(b"X: y\r\n")
            except ConnectionResetError:
                closed = True
    assert closed


def test_scrapes_go_on_while_others_hold_half_sent_requests(exporter: Exporter) -> None:
    with (
        MetricsServer(exporter, 0, request_timeout_s=10 * PATIENCE_S) as server,
        ExitStack() as held,
    ):
        for _ in range(8):
            held.enter_context(connect(server)).sendall(b"GET /metrics HTTP/1.1\r\n")
        assert ask(server, "/metrics")[0].status == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"a" * 60_000_000,
        b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 10_000_000,
        b"POST /metrics HTTP/1.1\r\nContent-Length: 60000000\r\n\r\n" + b"b" * 60_000_000,
    ],
    ids=["line", "headers", "body"],
)
def test_a_huge_request_is_cut_off(server: MetricsServer, request_bytes: bytes) -> None:
    with connect(server) as connection:
        assert send_until_cut(connection, request_bytes) < len(request_bytes)
    assert ask(server, "/metrics")[0].status == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n", 431),
        (b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 50_000 + b"\r\n", 431),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + b"b" * 300_000, 413),
        (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
        (b"GET /metrics HTTP/2.0\r\n\r\n", 505),
        (b"GET\r\n\r\n", 400),
        (b"PUT /metrics HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + b"b" * 300_000, 405),
        (b"GET /elsewhere HTTP/1.1\r\n\r\n", 404),
    ],
)
def test_every_error_arrives_as_json_of_one_shape(
    server: MetricsServer, sent: bytes, status: int
) -> None:
    with connect(server) as connection:
        assert send_until_cut(connection, sent) == len(sent)
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert head.split(b" ", 2)[:2] == [b"HTTP/1.0", str(status).encode()]
    assert b"\r\nContent-Type: application/json\r\n" in head
    (text,) = json.loads(body).values()
    assert json.loads(body) == {"error": text}
    assert text.strip()


def test_a_request_that_fails_is_answered_too(
    exporter: Exporter, server: MetricsServer, caplog: pytest.LogCaptureFixture
) -> None:
    exporter.add((), lambda _: {}[0])
    response, body = ask(server, "/metrics")
    assert response.status == 500
    assert json.loads(body) == {"error": "this request failed; the log says how"}
    assert "a request for /metrics failed" in caplog.text


@pytest.mark.parametrize("junk", [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"\x00" * 100 + b"\n"])
def test_junk_is_answered_with_an_error_or_nothing(
    server: MetricsServer, junk: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with connect(server) as connection:
        connection.sendall(junk)
        connection.shutdown(socket.SHUT_WR)
        assert b" 200 " not in read_all(connection)
    assert ask(server, "/metrics")[0].status == 200
    assert capfd.readouterr() == ("", "")


def test_a_client_that_leaves_early_is_no_error(
    server: MetricsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert ask(server, "/metrics")[0].status == 200
    assert capfd.readouterr() == ("", "")


def test_stop_frees_the_port_cuts_connections_and_may_be_called_twice(
    exporter: Exporter,
) -> None:
    server = MetricsServer(exporter, 0)
    port = server.port
    with connect(server) as connection:
        connection.sendall(b"GET /met")
        server.stop()
        server.stop()
        assert read_all(connection) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    assert not any(thread.name == "idlestate-metrics" for thread in threading.enumerate())
    MetricsServer(exporter, port).stop()


def test_a_taken_port_is_refused_with_the_way_out(
    server: MetricsServer, exporter: Exporter
) -> None:
    with pytest.raises(ListenError) as caught:
        MetricsServer(exporter, server.port)
    assert str(caught.value) == (
        f"cannot serve /metrics on 127.0.0.1 port {server.port}: another program listens there;"
        " stop it, or give another port (0: any free one)"
    )
    assert ask(server, "/metrics")[0].status == 200


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        ("127.0.0.1", 70_000, "a port is a number from 0 to 65535"),
        ("127.0.0.1", -1, "a port is a number from 0 to 65535"),
        ("192.0.2.1", 0, "the address is not one of this machine's"),
        ("no such host", 0, "'no such host' is no address"),
    ],
)
def test_other_addresses_that_do_not_work_are_explained(
    exporter: Exporter, host: str, port: int, message: str
) -> None:
    with pytest.raises(ListenError, match=message):
        MetricsServer(exporter, port, host)


def test_a_port_that_needs_privileges_is_explained(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bind(self: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(http_server._Server, "server_bind", bind)
    with pytest.raises(ListenError, match="give a port from 1024 on"):
        MetricsServer(exporter, 80)


def test_ipv6_loopback_works_where_there_is_one(exporter: Exporter) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with MetricsServer(exporter, 0, "::1") as server:
        assert server.url.startswith("http://[::1]:")
        assert ask(server, "/metrics")[0].status == 200


def test_the_start_lists_paths_and_shows_browsers_the_status_page() -> None:
    page = StatusPage(
        Subject(
            name="run", now_ms=lambda: 0, figures=lambda _: [OperatorStatistics(operator="carts")]
        )
    )
    with MetricsServer(Exporter(FakeClock()), 0, page=page) as server:
        response, body = ask(server, "/", Accept="application/json")
        assert json.loads(body) == {"paths": ["/", "/metrics", "/-/healthy"]}
        response, body = ask(server, "/", Accept="text/html,*/*;q=0.8")
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert response.headers["Cache-Control"] == "no-store"
        assert b"<h1>carts</h1>" in body
        assert ask(server, "/operators/none", Accept="text/html")[0].status == 404
        assert ask(server, "/metrics", Accept="text/html")[1].startswith(b"# HELP")
