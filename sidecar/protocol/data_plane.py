"""The data plane: calls as Arrow Flight actions, one message in and one out.

Other methods of Flight are not served: an open stream would block a thread, and Flight's server
has no limit for that. A call gets a thread only after it has arrived completely.
"""

import logging
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import flight

from idlestate.sidecar.protocol.access_control import AccessError, TokenFile
from idlestate.sidecar.protocol.call_table import CallTable
from idlestate.sidecar.protocol.connection import ERROR
from idlestate.sidecar.protocol.errors import FailedCallError, SidecarError
from idlestate.sidecar.protocol.message import Message
from idlestate.web.listen_error import MAX_SOCKET_PATH
from idlestate.web.unix_socket import make_way

if TYPE_CHECKING:
    from idlestate.config.sidecar_settings import Tls

_HALF_S = 2.0
"""At the end, incomplete calls and answers are waited for this long."""
log = logging.getLogger(__name__)


class DataPlane(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow carries no types
    """Serves calls from construction until `stop`.

    Args:
        listen: `unix:PATH` or `ADDRESS:PORT`; port 0 takes a free one.
        calls: answers the calls.
        token: the token that clients must present; None: none.
        tls: the certificates for encryption; None: no encryption.

    Raises:
        AccessError: the address or a certificate cannot be used.
    """

    def __init__(
        self, listen: str, calls: CallTable, token: TokenFile | None, tls: "Tls | None"
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
            before = os.umask(0o177)  # from its creation, only its owner may use a socket
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
        """Accept no more calls, and finish the current ones. An incomplete call, or one whose
        answer is not read, is cut off: Flight would wait for its client forever.
        """
        self._calls.drain()
        ending = threading.Thread(target=self.shutdown, name="idlestate-data-end", daemon=True)
        ending.start()
        ending.join(_HALF_S)
        if ending.is_alive():
            with suppress(OSError):  # if open connections cannot be listed, the process ends anyway
                _cut(_bound(self.place))
            ending.join()

    def do_action(self, _context: Any, action: Any) -> Iterator[Any]:
        """Answer one call; the answer reports errors."""
        try:
            answer = self._calls.answer(action.type, action.body.to_pybytes())
        except SidecarError as error:
            answer = Message({ERROR: error.code, "text": str(error)}).encode()
        except Exception:
            log.exception("call %r failed", action.type)
            text = "internal error in the sidecar; see its log for the cause, then repeat the call"
            answer = Message({ERROR: FailedCallError.code, "text": text}).encode()
        yield flight.Result(pa.py_buffer(answer))


class _Doorkeeper(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, token: TokenFile) -> None:
        self._token = token

    def start_call(self, _info: Any, headers: Any) -> None:
        sent = headers.get("authorization") or [None]
        if not self._token.admits(sent[0]):
            raise flight.FlightUnauthenticatedError("unauthorized")


def _location(listen: str, tls: "Tls | None") -> str:
    if listen.startswith("unix:"):
        path = Path(_bound(listen))
        if len(os.fsencode(path)) > MAX_SOCKET_PATH:
            raise AccessError(
                f"cannot serve data on {path}: sockets have paths of at most {MAX_SOCKET_PATH} "
                "bytes; set data: unix:PATH, or directory: PATH, with a shorter path"
            )
        make_way(path)
        return f"grpc+unix://{path}"
    return f"grpc{'+tls' if tls else ''}://{listen}"


def _with_port(listen: str, port: int) -> str:
    return f"{listen.rpartition(':')[0]}:{port}"


def _bound(place: str) -> str:
    """The local end of a connection as the system lists it: the path of a socket, or the port."""
    if place.startswith("unix:"):
        return str(Path(place.removeprefix("unix:")).absolute())
    return place.rpartition(":")[2]


def _cut(bound: str) -> None:
    """Cut all connections to this place; Flight cannot do that."""
    for number in [int(each.name) for each in Path("/dev/fd").iterdir()]:
        with suppress(OSError):  # it is not a socket, or closed by now
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as link:
                    name = link.getsockname()
                    if str(name[1] if isinstance(name, tuple) else name) == bound:
                        link.shutdown(socket.SHUT_RDWR)
