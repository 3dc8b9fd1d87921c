"""The listener of the control plane, and the URL under which clients reach it."""

from ssl import SSLContext

from idlestate.config.sidecar_rules import is_local
from idlestate.sidecar.protocol.access_control import TokenFile, refusal_of
from idlestate.sidecar.server.control_plane import ControlPlane
from idlestate.web.http_server import HttpServer, Service


def open_control(
    place: str, plane: ControlPlane, token: TokenFile | None, tls: SSLContext | None
) -> HttpServer:
    """Answer requests at `unix:PATH` or `HOST:PORT` from now on.

    Raises:
        ListenError: the address cannot be used.
    """
    local = is_local(place)
    service = Service(
        "control",
        plane.answer,
        admit=lambda headers: refusal_of(headers, token, local),
        allow=plane.allow,
        takes_posts=True,
        most_body_bytes=plane.most_body_bytes,
    )
    where, _, port = place.rpartition(":")
    if place.startswith("unix:"):
        return HttpServer(service, None, place.removeprefix("unix:"), tls=tls)
    return HttpServer(service, int(port), where.strip("[]"), tls=tls)


def url_of(control: HttpServer, place: str, tls: SSLContext | None) -> str:
    """Where clients reach it; `place` as in `open_control`."""
    if place.startswith("unix:"):
        return f"unix:{control.host}"
    host = f"[{control.host}]" if ":" in control.host else control.host
    return f"http{'s' if tls else ''}://{host}:{control.port}"
