"""The status page: what operators store, how that grew, what expired, and why a key is in state.

`/` lists the operators, or shows the only one; `/operators/UID` shows one, and
`/operators/UID/keys?COLUMN=VALUE` looks one of its keys up. The pages change nothing, contain no
script and load nothing else.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from importlib.resources import files
from typing import Final
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from idlestate.metrics.growth_curve_on_page import moment
from idlestate.metrics.history import Size
from idlestate.metrics.key_lookup_form import KeyAnswer, KeyLookup, as_in_urls, lookup_view
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.metrics.operator_view import operator_view
from idlestate.metrics.operators_table import operators_table
from idlestate.metrics.version import VERSION
from idlestate.web.html import page_reply, tag
from idlestate.web.http_reply import Reply
from idlestate.web.http_server import Request

STYLE: Final = files("idlestate.metrics").joinpath("status_page.css").read_text()
_OPERATOR: Final = re.compile(r"/operators/([^/]+)(/keys|)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a status page is about.

    Attributes:
        name: the process, such as `sidecar`.
        now_ms: the time, ms since the epoch.
        figures: the figures of all operators at a time.
        curve: the sizes of an operator over time, oldest first.
        notices: what needs attention in an operator, if anything.
        keys: looks up keys; None if they cannot be looked up.
        may_look_up: whether a request with these headers may look up keys.
    """

    name: str
    now_ms: Callable[[], int]
    figures: Callable[[int], Sequence[OperatorStatistics]]
    curve: Callable[[str], Sequence[Size]] = lambda _: ()
    notices: Callable[[str], Sequence[str]] = lambda _: ()
    keys: KeyLookup | None = None
    may_look_up: Callable[[Message], bool] = lambda _: True


class StatusPage:
    """Answers browsers.

    Args:
        subject: what it shows.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def answer(self, request: Request) -> Reply | None:
        """The page that a request asks for; None if its path is not one of a page."""
        keys = self._subject.keys if self._subject.may_look_up(request.headers) else None
        if request.path == "/":
            return self._start(request.query, keys)
        found = _OPERATOR.fullmatch(request.path)
        if not found:
            return None
        return self._operator(unquote(found[1]), request.query if found[2] else None, keys)

    def _start(self, query: str, keys: KeyLookup | None) -> Reply:
        now_ms = self._subject.now_ms()
        every = self._subject.figures(now_ms)
        if len(every) == 1:
            return self._shown(every[0], now_ms, None, keys)
        listed = operators_table(every, query, now_ms, self._subject.curve, self._subject.notices)
        return self._page("Operators", now_ms, listed)

    def _operator(self, uid: str, key: str | None, keys: KeyLookup | None) -> Reply:
        now_ms = self._subject.now_ms()
        for figures in self._subject.figures(now_ms):
            if figures.operator == uid:
                return self._shown(figures, now_ms, key, keys)
        text = tag("p", "There is no operator ", tag("code", uid), ".", role="alert")
        return self._page("Not found", now_ms, [text], HTTPStatus.NOT_FOUND)

    def _shown(
        self, figures: OperatorStatistics, now_ms: int, key: str | None, keys: KeyLookup | None
    ) -> Reply:
        uid, status = figures.operator, HTTPStatus.OK
        body = operator_view(figures, now_ms, self._subject.curve(uid), self._subject.notices(uid))
        if keys is not None:
            answer: KeyAnswer | str | None = None
            if key is not None:
                try:
                    answer = keys.look_up(uid, as_in_urls(key))
                except ValueError as error:
                    answer, status = str(error), HTTPStatus.BAD_REQUEST
            columns = keys.columns(uid)
            body.append(lookup_view(uid, columns, key or "", answer))
        return self._page(uid, now_ms, body, status)

    def _page(
        self, title: str, now_ms: int, body: list[Element], status: HTTPStatus = HTTPStatus.OK
    ) -> Reply:
        header = tag(
            "header",
            tag("a", "Skip to content", href="#content", class_="skip"),
            tag("nav", tag("a", f"idlestate {self._subject.name}", href="/"), aria_label="Start"),
        )
        main = tag("main", tag("h1", title), *body, id="content", tabindex="-1")
        footer = tag(
            "footer",
            tag("p", f"As of {moment(now_ms)}. Reload the page for newer figures."),
            tag("p", f"idlestate {VERSION}. ", tag("a", "Metrics", href="/metrics")),
        )
        name = f"{title} - idlestate {self._subject.name}"
        return page_reply(name, STYLE, header, main, footer, status=status)
