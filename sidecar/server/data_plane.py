"""The data plane: calls as Arrow Flight actions, one message in and one out.

Nothing else of Flight is served: a stream that a client holds open would hold a thread, and
Flight's server has no limits for that. A call has arrived whole before it gets a thread.
"""

import logging
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from idlestate.config.sidecar_settings import Tls
from idlestate.sidecar.protocol.call_table import CallTable
from idlestate.sidecar.protocol.connection import ERROR
from idlestate.sidecar.protocol.errors import SidecarError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.server.access import AccessError, TokenFile
from idlestate.web.listen_error import MAX_SOCKET_PATH
from idlestate.web.unix_socket import make_way

_HALF_S = 2.0
"""So long, when all else has ended, is waited for calls and answers that are under way half."""
log = logging.getLogger(__name__)


class DataPlane(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow carries no types
    """Serves calls from construction until `stop`.

    Args:
        listen: `unix:PATH` or `ADDRESS:PORT`; port 0 takes a free one.
        calls: what answers.
        token: what clients have to show; None: nothing.
        tls: how connections are encrypted; None: not at all.

    Raises:
        AccessError: the address or a certificate cannot be used.
    """

    def __init__(
        self, listen: str, calls: CallTable, token: TokenFile | None, tls: Tls | None
    ) -> None:
        self._calls = calls
        secrets: dict[str, Any] = {}
        if tls is not None:
            try:
                pair = (Path(tls.cert_file).read_bytes(), Path(tls.key_file).read_bytes())
                secrets["tls_certificates"] = [pair]
                if tls.client_ca_file:
                    secrets["root_certificates"] = Path(tls.client_ca_file).read_bytes()
                    secrets["verify_client"] = True
            except OSError as error:
                raise AccessError(f"tls: {error.filename}: {error.strerror}") from error
        if token is not None:
            secrets["middleware"] = {"token": _Doorkeeper(token)}
        try:
            location = _location(listen, tls)
            before = os.umask(0o177)  # a socket is its owner's alone from the moment it is there
            try:
                super().__init__(location, **secrets)
            finally:
                os.umask(before)
        except (pa.ArrowException, OSError) as error:
            raise AccessError(
                f"cannot serve data on {listen}: {error}; "
                "if another program uses the address, choose another"
            ) from error
        self.place = listen if listen.startswith("unix:") else _with_port(listen, self.port)

    def stop(self) -> None:
        """Take no more calls, and finish those under way. One that has not come whole, or whose
        answer nobody takes, is cut off: Flight would wait for its client for ever.
        """
        self._calls.drain()
        ending = threading.Thread(target=self.shutdown, name="idlestate-data-end", daemon=True)
        ending.start()
        ending.join(_HALF_S)
        if ending.is_alive():
            with suppress(OSError):  # where nobody tells what is open: the process is cut off
                _cut(_bound(self.place))
            ending.join()

    def do_action(self, _context: Any, action: Any) -> Iterator[Any]:
        """Answer one call; what goes wrong is told in the answer."""
        try:
            answer = self._calls.answer(action.type, action.body.to_pybytes())
        except SidecarError as error:
            answer = Message({ERROR: error.code, "text": str(error)}).encode()
        except Exception:
            log.exception("call %r failed", action.type)
            text = "the sidecar failed at this call; its log says how"
            answer = Message({ERROR: SidecarError.code, "text": text}).encode()
        yield flight.Result(pa.py_buffer(answer))


class _Doorkeeper(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, token: TokenFile) -> None:
        self._token = token

    def start_call(self, _info: Any, headers: Any) -> None:
        sent = headers.get("authorization") or [None]
        if not self._token.admits(sent[0]):
            raise flight.FlightUnauthenticatedError("unauthorized")


def _location(listen: str, tls: Tls | None) -> str:
    if listen.startswith("unix:"):
        path = Path(_bound(listen))
        if len(os.fsencode(path)) > MAX_SOCKET_PATH:
            raise AccessError(
                f"cannot serve data on {path}: sockets have paths of at most {MAX_SOCKET_PATH} "
                "bytes; write data: unix:PATH or directory: PATH with a shorter one"
            )
        make_way(path)
        return f"grpc+unix://{path}"
    return f"grpc{'+tls' if tls else ''}://{listen}"


def _with_port(listen: str, port: int) -> str:
    return f"{listen.rpartition(':')[0]}:{port}"


def _bound(place: str) -> str:
    """The path of a socket, or the port, as the system tells where a connection has come to."""
    if place.startswith("unix:"):
        return str(Path(place.removeprefix("unix:")).absolute())
    return place.rpartition(":")[2]


def _cut(bound: str) -> None:
    """Cut all connections that have come there; Flight has no way to."""
    for number in [int(each.name) for each in Path("/dev/fd").iterdir()]:
        with suppress(OSError):  # it is no socket, or closed by now
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as link:
                    name = link.getsockname()
                    if str(name[1] if isinstance(name, tuple) else name) == bound:
                        link.shutdown(socket.SHUT_RDWR)
