"""The server that Prometheus scrapes: `/metrics` and `/-/healthy`, nothing else.

It shows the registry and changes nothing. `web/http_server.py` handles slow and broken clients.
"""

from http import HTTPStatus

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from idlestate.web.http_reply import Reply, error_reply
from idlestate.web.http_server import (
    LOOPBACK,
    MAX_CONNECTIONS,
    REQUEST_TIMEOUT_S,
    HttpServer,
    Request,
    Service,
)
from idlestate.web.listen_error import ListenError

__all__ = ["ListenError", "MetricsServer", "render"]


class MetricsServer(HttpServer):
    """Serves a registry over HTTP.

    Args:
        registry: the metrics to serve.
        port, host, request_timeout_s, max_connections: as for `HttpServer`.

    Raises:
        ListenError: the address is taken, not permitted, or not one of this machine.
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
        super().__init__(
            Service("/metrics", lambda request: _answer(registry, request)),
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


def render(registry: CollectorRegistry, accept: str) -> Reply:
    """All metrics, in the format of the Accept header; plain text if the header is not valid."""
    try:
        # The reply repeats parts of the header: a folded one must not break its lines.
        encode, kind = choose_encoder(" ".join(accept.split()))
        return Reply(encode(registry), kind)
    except (TypeError, ValueError):
        encode, kind = choose_encoder("")
        return Reply(encode(registry), kind)


def _answer(registry: CollectorRegistry, request: Request) -> Reply:
    if request.path == "/metrics":
        return render(registry, request.headers.get("Accept", ""))
    if request.path == "/-/healthy":
        return Reply(b"idlestate is healthy\n")
    return error_reply(HTTPStatus.NOT_FOUND, "not found: try /metrics or /-/healthy")
