"""The server that Prometheus scrapes: `/metrics` and `/-/healthy`, and a status page for people.

It shows figures and changes nothing. `web/http_server.py` handles slow and broken clients.
"""

from http import HTTPStatus

from idlestate.metrics.exporter import Exporter
from idlestate.metrics.status_page import StatusPage
from idlestate.web.connection_limits import MAX_CONNECTIONS
from idlestate.web.html import wants_html
from idlestate.web.http_reply import Reply, error_reply, json_reply
from idlestate.web.http_server import (
    LOOPBACK,
    REQUEST_TIMEOUT_S,
    HttpServer,
    Request,
    Service,
)


class MetricsServer(HttpServer):
    """Serves metrics over HTTP.

    Args:
        exporter: the metrics to serve.
        page: the status page at `/`; None for none.
        port, host, request_timeout_s, max_connections: as for `HttpServer`.

    Raises:
        ListenError: the address is taken, not permitted, or not one of this machine.
    """

    def __init__(
        self,
        exporter: Exporter,
        port: int,
        host: str = LOOPBACK,
        *,
        page: StatusPage | None = None,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        super().__init__(
            Service("/metrics", lambda request: _answer(exporter, page, request)),
            port,
            host,
            request_timeout_s=request_timeout_s,
            max_connections=max_connections,
        )

    @property
    def url(self) -> str:
        """The URL of the metrics."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"


def _answer(exporter: Exporter, page: StatusPage | None, request: Request) -> Reply:
    shown = page.answer(request) if page is not None and wants_html(request.headers) else None
    if shown is not None:
        return shown
    if request.path == "/":
        return json_reply({"paths": ["/", "/metrics", "/-/healthy"]})
    if request.path == "/metrics":
        return exporter.reply(request.headers.get("Accept", ""))
    if request.path == "/-/healthy":
        return Reply(b"idlestate is healthy\n")
    return error_reply(HTTPStatus.NOT_FOUND, "not found: try /metrics or /-/healthy")
