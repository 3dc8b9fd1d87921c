"""A connection to a sidecar's data plane: calls over Arrow Flight, with retries."""

import os
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from idlestate.sidecar.protocol.certificates import take_authority, take_pair
from idlestate.sidecar.protocol.errors import (
    BY_CODE,
    AwayError,
    CannotConnectError,
    FailedCallError,
)
from idlestate.sidecar.protocol.message import Message, MessageError
from idlestate.sidecar.protocol.retries import CONNECT_TIMEOUT_S, PATIENCE_S, patiently
from idlestate.sidecar.protocol.token import read_token
from idlestate.timers.clock import Clock, SystemClock

ERROR = "error"
"""The field of an answer's header with the error."""
_CALL_TIMEOUT_S = 300.0
_LONGEST_SOCKET = 107
"""In bytes: the limit on Linux."""
_LAST_PORT = 65535
_AWAY = (flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError)
"""The sidecar is away; a stopping server cancels calls that arrive at that moment."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a sidecar, and the client's credentials.

    Attributes:
        place: `unix:PATH`, or `HOST:PORT`.
        token_file: a file whose content is the bearer token.
        ca_file, cert_file, key_file: PEM files for TLS; cert_file and key_file are the client's
            certificate, if the sidecar requires one.
    """

    place: str
    token_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def beside(self, place: str) -> "Address":
        """Another address of the same sidecar: a suffix of the socket's name, or a port."""
        if self.place.startswith("unix:"):
            return replace(self, place=self.place + place)
        return replace(self, place=f"{self.place.rpartition(':')[0]}:{place}")

    @property
    def location(self) -> str:
        """The place as Flight writes it.

        Raises:
            ValueError: it is not the place of a sidecar.
        """
        if self.place.startswith("unix:"):
            path = Path(self.place.removeprefix("unix:")).absolute()
            if len(os.fsencode(path)) > _LONGEST_SOCKET:
                raise ValueError(
                    f"the path of a socket has at most {_LONGEST_SOCKET} bytes; use a shorter one"
                )
            return f"grpc+unix://{path}"
        host, _, port = self.place.rpartition(":")
        if not host or "/" in host or not port.isdecimal() or not 0 < int(port) <= _LAST_PORT:
            raise ValueError(
                "not a valid address; pass unix:PATH, or HOST:PORT with a port from 1 to "
                f"{_LAST_PORT}"
            )
        return f"grpc{'+tls' if self.ca_file else ''}://{self.place}"


class Connection:
    """Makes calls; threads may share it.

    Args:
        address: where the sidecar is.
        patience_s: how long to retry while it is unavailable or busy.
        clock: measures the time.
        timeout_s: the timeout of one call.
        connect_timeout_s: how long to retry if it has never answered this connection, if that is
            less than `patience_s`.
    """

    def __init__(
        self,
        address: Address,
        patience_s: float = PATIENCE_S,
        clock: Clock | None = None,
        timeout_s: float = _CALL_TIMEOUT_S,
        connect_timeout_s: float = PATIENCE_S,
    ) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._connect_timeout_s = min(connect_timeout_s, patience_s)
        self._has_answered = False
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._client: Any = None

    def call(self, name: str, header: Mapping[str, Any] | None = None, *parts: bytes) -> Message:
        """Make a call and return its answer.

        Raises:
            SidecarError: the sidecar reports an error.
            CannotConnectError: the address, token or certificates do not allow a call, or its
                answer cannot be read.
            AwayError: it did not answer for `patience_s`, or never for `connect_timeout_s`.
        """
        body = Message(dict(header or {}), parts).encode()
        return patiently(lambda: self._once(name, body), self._patience_now_s, self._clock)

    def _patience_now_s(self) -> float:
        return self._patience_s if self._has_answered else self._connect_timeout_s

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _once(self, name: str, body: bytes) -> Message:
        address = self.address
        client: Any = None
        try:
            client = self._connected()
            headers = []
            if address.token_file:
                token = read_token(Path(address.token_file))
                headers.append((b"authorization", f"Bearer {token}".encode()))
            options = flight.FlightCallOptions(timeout=self._timeout_s, headers=headers)
            (result,) = client.do_action(flight.Action(name, pa.py_buffer(body)), options)
        except _AWAY as error:
            self._forget(client)
            hint = ""
            if not (address.ca_file or address.place.startswith("unix:")):
                hint = "; if it uses TLS, pass its certificate authority (--ca-file)"
            told = "lost the connection" if self._has_answered else "cannot connect"
            raise AwayError(
                f"{told} to the sidecar at {address.place}: start it with `idlestate serve FILE`, "
                f"or pass the address that serve prints after 'data at'{hint}"
            ) from error
        except flight.FlightUnauthenticatedError as error:
            raise CannotConnectError(
                f"the sidecar at {address.place} requires authentication: pass the token file "
                "or certificate that it was started with"
            ) from error
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CannotConnectError(f"the sidecar at {address.place}: {error}") from error
        self._has_answered = True
        try:
            answer = Message.decode(result.body.to_pybytes())
        except MessageError as error:
            raise CannotConnectError(
                f"the answer of {address.place} cannot be read: {error}; pass the address of a "
                "sidecar of this version of idlestate"
            ) from error
        if ERROR in answer.header:
            kind = BY_CODE.get(answer.header[ERROR], FailedCallError)
            raise kind(answer.header["text"])
        return answer

    def _forget(self, client: Any) -> None:
        """Use a new Flight client for the next call. This one is released with the last thread that
        uses it: if it were closed earlier, that thread's call would fail for good.
        """
        with self._lock:
            if self._client is client:
                self._client = None

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                address = self.address
                secrets: dict[str, Any] = {}
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                if address.cert_file or address.key_file:
                    if not (address.ca_file and address.cert_file and address.key_file):
                        # Without ca_file, Flight would not encrypt, and would ignore the others.
                        raise ValueError("cert_file and key_file require each other and ca_file")
                    pair = take_pair(context, address.cert_file, address.key_file)
                    secrets["cert_chain"], secrets["private_key"] = pair
                if address.ca_file:
                    secrets["tls_root_certs"] = take_authority(context, address.ca_file)
                # gRPC's own limit for connecting is 20 s.
                limit_ms = int(1000 * min(self._connect_timeout_s or CONNECT_TIMEOUT_S, 20.0))
                secrets["generic_options"] = [("grpc.min_reconnect_backoff_ms", limit_ms)]
                self._client = flight.FlightClient(address.location, **secrets)
            return self._client
