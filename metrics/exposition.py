"""The small HTTP server that Prometheus scrapes: `/metrics` and `/-/healthy`, nothing else.

It is made for a hostile or broken client as much as for Prometheus. A request has to arrive whole
within a deadline that slow drips do not extend, it is short, it has no body, each connection
carries one request, and only so many connections are open at once. It listens on loopback unless
told otherwise, writes nothing but what the registry says, and changes nothing.
"""

import errno
import io
import logging
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from time import monotonic
from types import TracebackType
from typing import Any, Self, cast

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

LOOPBACK = "127.0.0.1"
REQUEST_TIMEOUT_S = 4.0  # for the whole request, from the connection on
REPLY_TIMEOUT_S = 5.0  # for the whole reply
MAX_REQUEST_BYTES = 16 * 1024
MAX_CONNECTIONS = 16
STOP_POLL_S = 0.1
STOP_TIMEOUT_S = 2.0  # for handlers to notice that their connection is cut

_BUSY = b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

log = logging.getLogger(__name__)


class ListenError(RuntimeError):
    """The address for `/metrics` cannot be listened on; the message says what to change."""


class MetricsServer:
    """Serves a registry over HTTP from threads of its own, from construction until `stop`.

    Also a context manager.

    Args:
        registry: what to show.
        port: TCP port; 0 takes any free one, which `port` then tells.
        host: address to listen on. The default is reached from this machine only.
        request_timeout_s: how long a request may take to arrive.
        max_connections: how many may be open at once; the next one is answered with 503.

    Raises:
        ListenError: the address is taken, not allowed, or not one of this machine's.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        port: int,
        host: str = LOOPBACK,
        *,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        try:
            self._server = _Server(host, port, registry, request_timeout_s, max_connections)
        except (OSError, OverflowError) as error:
            raise ListenError(_explain(host, port, error)) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": STOP_POLL_S},
            name="idlestate-metrics",
            daemon=True,
        )
        self._thread.start()

    @property
    def host(self) -> str:
        """The address it listens on."""
        return str(self._server.server_address[0])

    @property
    def port(self) -> int:
        """The port it listens on, also when 0 was asked for."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"

    def stop(self) -> None:
        """Stop listening and cut open connections; a second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class _Server(ThreadingMixIn, TCPServer):
    """One thread per connection, of which there are at most `max_connections`."""

    allow_reuse_address = True  # a restart need not wait for old connections to time out
    daemon_threads = True
    request_queue_size = 32

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        request_timeout_s: float,
        max_connections: int,
    ) -> None:
        self.registry = registry
        self.request_timeout_s = request_timeout_s
        self._free = threading.BoundedSemaphore(max_connections)
        self._open: set[socket.socket] = set()
        self._closed = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            with suppress(OSError):
                request.settimeout(0)
                request.send(_BUSY)
            self.shutdown_request(request)
            return
        with self._closed:
            self._open.add(request)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: socket.socket) -> None:
        with self._closed:
            self._open.discard(request)
            self._closed.notify_all()
        self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as its parent
        """Log what went wrong; the base class would write it to the terminal."""
        log.warning("a request for metrics from %s failed", client_address[0], exc_info=True)

    def server_close(self) -> None:
        super().server_close()
        with self._closed:
            for request in self._open:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)
            self._closed.wait_for(lambda: not self._open, timeout=STOP_TIMEOUT_S)


class _RequestReader(io.RawIOBase):
    """Reads a socket up to a deadline and a number of bytes, however slowly these trickle in."""

    def __init__(self, connection: socket.socket, timeout_s: float, max_bytes: int) -> None:
        self._connection = connection
        self._deadline_s = monotonic() + timeout_s
        self._bytes_left = max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        left_s = self._deadline_s - monotonic()
        if left_s <= 0 or self._bytes_left <= 0:
            raise TimeoutError("the request is too slow or too long")
        self._connection.settimeout(left_s)
        count = self._connection.recv_into(memoryview(buffer)[: self._bytes_left])
        self._bytes_left -= count
        return count


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; HTTP/1.0, so the connection ends with it."""

    server_version = "idlestate"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        server = cast(_Server, self.server)
        self.rfile = io.BufferedReader(
            _RequestReader(self.connection, server.request_timeout_s, MAX_REQUEST_BYTES)
        )

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client went away
            super().handle()

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        status, kind = HTTPStatus.OK, "text/plain; charset=utf-8"
        if path == "/metrics":
            body, kind = _encode(
                cast(_Server, self.server).registry, self.headers.get("Accept", "")
            )
        elif path == "/-/healthy":
            body = b"idlestate is healthy\n"
        else:
            status, body = HTTPStatus.NOT_FOUND, b"not found: try /metrics or /-/healthy\n"
        self.connection.settimeout(REPLY_TIMEOUT_S)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        log.debug("%s: %r", self.address_string(), format % args)


def _encode(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """All metrics and their content type; in plain text when the Accept header makes no sense."""
    try:
        # Parts of the header come back in the reply: a folded one must not break its lines.
        encode, kind = choose_encoder(" ".join(accept.split()))
        return encode(registry), kind
    except (TypeError, ValueError):
        encode, kind = choose_encoder("")
        return encode(registry), kind


def _explain(host: str, port: int, error: Exception) -> str:
    where = f"cannot serve /metrics on {host} port {port}"
    if isinstance(error, OverflowError):
        return f"{where}: a port is a number from 0 to 65535"
    match error:
        case PermissionError():
            why = "this user may not listen there; give a port from 1024 on"
        case socket.gaierror():
            why = f"{host!r} is no address; 127.0.0.1 is this machine, 0.0.0.0 all its networks"
        case OSError(errno=errno.EADDRINUSE):
            why = "another program listens there; stop it, or give another port (0: any free one)"
        case OSError(errno=errno.EADDRNOTAVAIL):
            why = "the address is not one of this machine's; 127.0.0.1 always is"
        case _:
            why = str(error)
    return f"{where}: {why}"
