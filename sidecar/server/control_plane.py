"""The control plane: health, figures, policies, look-ups and a few commands.

`sidecar/server/openapi.json` describes it. Answers are JSON, except for `/metrics`, health and the
status page for browsers.
"""

import re
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

from idlestate.metrics.exporter import Exporter
from idlestate.metrics.status_page import StatusPage
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.protocol.errors import (
    DoesNotFitError,
    SidecarError,
    UnknownOperatorError,
)
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.sidecar.server.advising import MAX_LOG_BYTES, advise_on
from idlestate.sidecar.server.health import Health
from idlestate.sidecar.server.keys_in_urls import key_of, shown
from idlestate.sidecar.server.policies_in_urls import policies_of
from idlestate.timers.clock import Clock
from idlestate.web.html import wants_html
from idlestate.web.http_reply import JSON, Reply, error_reply, json_reply, not_allowed
from idlestate.web.http_server import GET_ONLY, Request
from idlestate.web.request_bodies import MAX_SHORT_BYTES

_OPERATOR = re.compile(r"/operators/([^/]+)(/keys|/explain|/plan|/release|)")
_Found = TypeVar("_Found")
_Kind = TypeVar("_Kind")
OPENAPI = Path(__file__).with_name("openapi.json")
ADVISE = "/advise"
_OPEN = (
    "refused: any user of this machine can connect here; set sidecar.token_file and send the "
    "token, or leave out sidecar.control to use a Unix socket"
)


class Controls(Protocol):
    """What the control plane needs from the process."""

    def reload(self) -> str:
        """Read the configuration again; return the result in words.

        Raises:
            SidecarError: it was refused; the previous one stays in effect.
        """

    def accept_clock(self) -> None:
        """Accept the wall clock after a jump."""


class ControlPlane:
    """Answers requests to the control plane."""

    def __init__(
        self,
        host: Host,
        clock: Clock,
        health: Health,
        controls: Controls,
        exporter: Exporter,
        page: StatusPage,
        *,
        changes_allowed: bool,
    ) -> None:
        """Take what requests are answered from.

        Args:
            host, clock, health, controls, exporter, page: those of the process.
            changes_allowed: whether requests may change what the sidecar does.
        """
        self._host = host
        self._clock = clock
        self._controls = controls
        self._exporter = exporter
        self._page = page
        self._changes_allowed = changes_allowed
        self._gets: dict[str, Callable[[Request], Reply]] = {
            "/": lambda _: json_reply({"paths": [*self._gets, "/operators/{uid}"]}),
            "/healthz": lambda _: health.healthz(),
            "/readyz": lambda _: health.readyz(),
            "/metrics": lambda request: self._exporter.reply(request.headers.get("Accept", "")),
            "/openapi.json": lambda _: Reply(OPENAPI.read_bytes(), JSON),
            "/operators": lambda _: json_reply([self._brief(each) for each in self._host]),
            "/policies": lambda _: json_reply(
                {each.state.uid: each.record.policy.to_json() for each in self._host}
            ),
        }
        self._of_operator: dict[str, Callable[[Operator, Request], Reply]] = {
            "": lambda operator, _: json_reply(self._full(operator)),
            "/keys": self._keys,
            "/explain": self._explain,
            "/plan": self._plan,
        }
        self._posts: dict[str, Callable[[Request], Reply]] = {
            ADVISE: advise_on,
            "/-/reload": lambda _: json_reply({"result": self._controls.reload()}),
            "/-/clock/accept": lambda _: self._accept_clock(),
        }

    def answer(self, request: Request) -> Reply:
        """Answer an admitted request; a browser gets the page, if there is one."""
        try:
            is_browser = request.method != "POST" and wants_html(request.headers)
            page = self._page.answer(request) if is_browser else None
            return self._answer(request) if page is None else page
        except UnknownOperatorError as error:
            return error_reply(HTTPStatus.NOT_FOUND, str(error))
        except DoesNotFitError as error:
            return error_reply(HTTPStatus.BAD_REQUEST, str(error))
        except SidecarError as error:
            return error_reply(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def allow(self, path: str) -> str:
        """The methods of a path."""
        return "POST" if path in self._posts or path.endswith("/release") else GET_ONLY

    def most_body_bytes(self, path: str) -> int:
        """The longest body that a path accepts."""
        return MAX_LOG_BYTES if path == ADVISE else MAX_SHORT_BYTES

    def _answer(self, request: Request) -> Reply:
        is_post = request.method == "POST"
        if not self._changes_allowed and self._changes_state(request):
            return error_reply(HTTPStatus.FORBIDDEN, _OPEN)
        if is_post and request.path in self._posts:
            return self._posts[request.path](request)
        if not is_post and request.path in self._gets:
            return self._gets[request.path](request)
        found = _OPERATOR.fullmatch(request.path)
        if found and is_post == (found[2] == "/release"):
            operator = self._host[unquote(found[1])]
            if is_post:
                operator.batches.release()
                return json_reply({"result": "released"})
            return self._of_operator[found[2]](operator, request)
        known = (*self._gets, *self._posts)
        if request.path in known or found:
            return not_allowed(self.allow(request.path))
        return error_reply(HTTPStatus.NOT_FOUND, f"not found: try {', '.join(known)}")

    def _changes_state(self, request: Request) -> bool:
        return request.path != ADVISE and request.method == "POST" == self.allow(request.path)

    def _accept_clock(self) -> Reply:
        self._controls.accept_clock()
        return json_reply({"result": "the wall clock is accepted"})

    def _brief(self, operator: Operator) -> dict[str, Any]:
        record = operator.record
        return {
            "uid": operator.state.uid,
            "time": record.declaration.time,
            **asdict(operator.sizes()),
            "stopped": record.stopped,
        }

    def _full(self, operator: Operator) -> dict[str, Any]:
        record = operator.record
        declaration = record.declaration.to_json()
        columns = {field.name: str(field.type) for field in record.declaration.inputs()}
        return {
            **self._brief(operator),
            "declaration": declaration | {"schema": columns},
            "policy": record.policy.to_json(),
            "right_policy": record.right and record.right.to_json(),
            "owner": asdict(record.owner) if record.owner else None,
            "open_batch": record.open.batch_id if record.open else None,
            "consumers": dict(record.consumers),
        }

    def _keys(self, operator: Operator, request: Request) -> Reply:
        """Look one key up; its columns are the query's fields. This does not extend its life."""
        key = stream_of(_asked(key_of, operator, request.query, operator.state.spec.keys))
        lives, batch_id = operator.look_up(key, self._clock.now_ms())
        return json_reply({"batch_id": batch_id, "lives": shown(lives)})

    def _explain(self, operator: Operator, request: Request) -> Reply:
        """Why a key is, or is no longer, in state; its columns are the query's fields."""
        key = stream_of(_asked(key_of, operator, request.query, operator.state.spec.keys))
        return json_reply(operator.explain(key, self._clock.now_ms()).to_json())

    def _plan(self, operator: Operator, request: Request) -> Reply:
        """What other policies would remove; the query's fields are their rules."""
        policy, right = _asked(policies_of, operator, request.query, operator.record.policy.time)
        return json_reply(operator.plan(policy, self._clock.now_ms(), right).to_json())


def _asked(
    read: Callable[[str, _Kind], _Found], operator: Operator, query: str, kind: _Kind
) -> _Found:
    """The parsed query of a URL.

    Raises:
        DoesNotFitError: it is not valid.
    """
    try:
        return read(query, kind)
    except ValueError as error:
        raise DoesNotFitError(f"operator {operator.state.uid!r}: {error}") from error
