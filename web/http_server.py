"""A small HTTP server that withstands hostile and broken clients.

A request must arrive within a fixed deadline, and its size is limited. Each connection carries one
request, the number of connections is limited, and the slowest one makes room for a new one. A
client without access is rejected before its body is read. Every error is JSON:
`{"error": "..."}`. By default, the server listens on loopback.
"""

import errno
import io
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Self, cast

from idlestate.web.connection_limits import MAX_CONNECTIONS, Connections
from idlestate.web.http_reply import Reply, error_reply, not_allowed
from idlestate.web.listen_error import ListenError, explain
from idlestate.web.request_bodies import MAX_SHORT_BYTES, Uploads, refuse_body
from idlestate.web.request_reader import RequestReader, TooLongError
from idlestate.web.spare_descriptor import SpareDescriptor
from idlestate.web.unix_socket import make_way
from idlestate.web.unread_body import discard_rest

LOOPBACK = "127.0.0.1"
REQUEST_TIMEOUT_S = 4.0  # for the entire request, from the connection on
REPLY_TIMEOUT_S = 5.0  # for the entire reply
MAX_REQUEST_BYTES = 16 * 1024
STOP_POLL_S = 0.1
STOP_TIMEOUT_S = 2.0  # for handlers to notice that their connection is cut
GET_ONLY = "GET, HEAD"

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was admitted."""

    method: str
    path: str
    query: str
    headers: Message
    body: bytes


_BUSY = error_reply(
    HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are being answered; try again"
)
_FAILED = error_reply(HTTPStatus.INTERNAL_SERVER_ERROR, "this request failed; the log says how")


@dataclass(frozen=True, slots=True)
class Service:
    """The service behind a server.

    Attributes:
        name: its name in errors and thread names, such as `/metrics`.
        answer: handles a request, in a thread per request.
        admit: checks the headers of a request before its body is read; None admits it.
        allow: the methods of a path, as in the `Allow` header.
        takes_posts: whether a path accepts POST.
        most_body_bytes: the longest body that a path accepts.
    """

    name: str
    answer: Callable[[Request], Reply]
    admit: Callable[[Message], Reply | None] = lambda _: None
    allow: Callable[[str], str] = lambda _: GET_ONLY
    takes_posts: bool = False
    most_body_bytes: Callable[[str], int] = lambda _: MAX_SHORT_BYTES


class HttpServer:
    """Serves in its own threads, from construction until `stop`; also a context manager.

    Args:
        service: the service.
        port: TCP port; 0 for any free one, which `port` returns. None: a Unix socket.
        host: address to listen on, or the path of the socket, which only its owner may use.
        request_timeout_s: how long a request may take to arrive.
        max_connections: the most open connections.
        tls: encryption; None for none.

    Raises:
        ListenError: the address is taken, not permitted, or not one of this machine.
    """

    def __init__(
        self,
        service: Service,
        port: int | None,
        host: str = LOOPBACK,
        *,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        try:
            self._server = _Server(host, port, service, request_timeout_s, max_connections, tls)
        except (OSError, OverflowError, TypeError, ValueError) as error:
            raise ListenError(explain(service.name, host, port, error)) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": STOP_POLL_S},
            name=f"idlestate-{service.name.strip('/')}",
            daemon=True,
        )
        self._thread.start()

    @property
    def host(self) -> str:
        """The address it listens on, or the path of its socket."""
        address: Any = self._server.server_address  # a path where it is a Unix socket
        return str(address if isinstance(address, str) else address[0])

    @property
    def port(self) -> int:
        """The port it listens on, also if 0 was passed."""
        return int(self._server.server_address[1])

    def stop(self) -> None:
        """Stop listening and cut open connections; a second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


class _Server(ThreadingMixIn, TCPServer):
    """One thread per connection, of which there are at most `max_connections`."""

    allow_reuse_address = True  # a restart does not wait for old connections to time out
    daemon_threads = True
    request_queue_size = socket.SOMAXCONN  # connecting to a Unix socket fails if its queue is full

    def __init__(
        self,
        host: str,
        port: int | None,
        service: Service,
        request_timeout_s: float,
        max_connections: int,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.service = service
        self.request_timeout_s = request_timeout_s
        self._tls = tls
        self.connections = Connections(max_connections)
        self.uploads = Uploads()
        self._spare = SpareDescriptor()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address: Any = (host, port)
        if port is None:
            self.address_family = socket.AF_UNIX
            address = host
            make_way(Path(host))
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        if self.address_family != socket.AF_UNIX:
            super().server_bind()
            return
        # Clients cannot connect before listen(), so the mode applies to all of them.
        path = cast("str", self.server_address)
        self.socket.bind(path)
        Path(path).chmod(0o600)

    def get_request(self) -> tuple[Any, Any]:
        try:
            connection, address = super().get_request()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTORS:
                raise
            if not self._spare.let_go():
                threading.Event().wait(STOP_POLL_S)  # it would be found again at once
                raise
            connection, address = super().get_request()
        if self._tls:
            # The handshake comes with the first read, in the connection's own thread.
            connection = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.connections.admit(request):
            with suppress(OSError):
                request.settimeout(0)
                request.send(_BUSY.lines())
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.forget(request)
        super().shutdown_request(request)
        self._spare.keep()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as its parent
        """Log an error; the base class would write it to the terminal."""
        log.warning("a request for %s failed", self.service.name, exc_info=True)

    def server_close(self) -> None:
        super().server_close()
        if self.address_family == socket.AF_UNIX:
            Path(cast("str", self.server_address)).unlink(missing_ok=True)
        self.connections.cut_all(STOP_TIMEOUT_S)
        self._spare.let_go()


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; HTTP/1.0, so the connection ends with it."""

    server_version = "idlestate"
    sys_version = ""

    command = requestline = ""  # until they are read
    request_version = default_request_version = "HTTP/1.0"  # without a version there is no head

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        server = cast("_Server", self.server)
        limits = server.request_timeout_s, MAX_REQUEST_BYTES
        self._reader = RequestReader(self.connection, *limits)
        self.rfile = io.BufferedReader(self._reader)

    def handle(self) -> None:
        with suppress(
            ConnectionError, ssl.SSLError
        ):  # the client went away, or does not speak HTTP
            try:
                super().handle()
            except TooLongError:
                of_headers = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                self.send_error(of_headers if self.command else HTTPStatus.REQUEST_URI_TOO_LONG)

    def send_error(self, code: int, *_: str | None) -> None:
        """Reject a request, without repeating what the client sent."""
        status = HTTPStatus(code)
        if status == HTTPStatus.NOT_IMPLEMENTED:
            self._refuse(not_allowed(cast("_Server", self.server).service.allow(self._path)))
        else:
            self._refuse(error_reply(status, status.phrase))

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _refuse(self, reply: Reply) -> None:
        """Reply to a request that was not read to its end."""
        self._send(reply)
        discard_rest(self.connection)

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        if not cast("_Server", self.server).service.takes_posts:
            self.send_error(HTTPStatus.NOT_IMPLEMENTED)
            return
        self._answer()

    def _answer(self) -> None:
        server = cast("_Server", self.server)
        service = server.service
        refusal = service.admit(self.headers) or refuse_body(
            self.headers, service.most_body_bytes(self._path)
        )
        if refusal is not None:
            self._refuse(refusal)
            return
        length = int(self.headers.get("Content-Length") or 0)
        with server.uploads.room(length, self._reader, server.request_timeout_s) as has_room:
            if has_room:
                self._answer_with(length)
            else:
                self._refuse(_BUSY)

    def _answer_with(self, length: int) -> None:
        """Answer a request that was admitted, with a body of `length` bytes."""
        server = cast("_Server", self.server)
        body = self.rfile.read(length) if length else b""
        if len(body) < length:
            return  # the client stopped before the end
        server.connections.has_asked(self.connection)
        query = self.path.partition("?")[2]
        with server.connections.answering() as has_turn:
            if has_turn:
                request = Request(self.command, self._path, query, self.headers, body)
                reply = self._reply_to(request)
            else:
                reply = _BUSY
        self._send(reply)

    def _reply_to(self, request: Request) -> Reply:
        service = cast("_Server", self.server).service
        try:
            return service.answer(request)
        except Exception:
            log.exception("a request for %s failed", service.name)
            return _FAILED

    def _send(self, reply: Reply) -> None:
        self.connection.settimeout(REPLY_TIMEOUT_S)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def address_string(self) -> str:
        # Clients of a Unix socket have no address.
        return str(self.client_address[0]) if any(self.client_address) else "a local process"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        log.debug("%s: %r", self.address_string(), format % args)
