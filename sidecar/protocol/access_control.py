"""Access control: a bearer token from a file, and protection from web pages."""

import hmac
from base64 import b64decode
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from idlestate.config.loopback import is_loopback
from idlestate.errors import RefusedError
from idlestate.sidecar.protocol.token import read_token
from idlestate.web.http_reply import Reply, error_reply

if TYPE_CHECKING:
    from idlestate.config.sidecar_settings import Sidecar

_CHALLENGE = 'Bearer, Basic realm="idlestate", charset="UTF-8"'


class AccessError(RefusedError, RuntimeError):
    """A token or certificate file cannot be used; the text names it and the reason."""


class TokenFile:
    """The token in a file, read for every call, so that a new one takes effect at once.

    Raises:
        AccessError: the file contains no usable token.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            read_token(path)
        except ValueError as error:
            raise AccessError(str(error)) from error

    def admits(self, authorization: str | None) -> bool:
        """Whether an Authorization header contains the token, compared in constant time."""
        try:
            token = read_token(self._path)
        except ValueError:
            return False
        sent = (authorization or "").encode(errors="replace")
        return hmac.compare_digest(sent, f"Bearer {token}".encode())


def refusal_of(headers: Message, token: TokenFile | None, is_local: bool) -> Reply | None:
    """Why a request to the control plane is refused; None if it is not."""
    if token is not None and not token.admits(_bearer(headers.get("Authorization", ""))):
        text = (
            "authentication required: send the token as Authorization: Bearer TOKEN; in a browser, "
            "enter it as the password, with any user name"
        )
        return error_reply(HTTPStatus.UNAUTHORIZED, text, WWW_Authenticate=_CHALLENGE)
    if is_local and not names_this_machine(headers):
        return error_reply(HTTPStatus.FORBIDDEN, "wrong Host: use localhost or 127.0.0.1")
    if headers.get("Origin") is not None:
        return error_reply(HTTPStatus.FORBIDDEN, "requests from web pages are refused")
    return None


def knows_clients(control: str, settings: "Sidecar") -> bool:
    """Whether the control plane is open only to the sidecar's own user, or to clients with a token
    or a certificate.

    Args:
        control: its address.
        settings: the settings of the sidecar.
    """
    has_ca = settings.tls is not None and settings.tls.client_ca_file is not None
    return control.startswith("unix:") or settings.token_file is not None or has_ca


def names_this_machine(headers: Message) -> bool:
    """Whether a request names loopback as its host, unlike a web page whose own name resolves to
    loopback (DNS rebinding).
    """
    host = headers.get("Host", "localhost")
    return is_loopback(host if host.endswith("]") else host.rpartition(":")[0] or host)


def _bearer(authorization: str) -> str:
    """The header as `Bearer TOKEN`; a browser sends the token as a password (RFC 7617)."""
    kind, _, value = authorization.partition(" ")
    if kind.lower() != "basic":
        return authorization
    try:
        return "Bearer " + b64decode(value, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""
