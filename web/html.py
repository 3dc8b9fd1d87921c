"""HTML pages, built from elements: every text and attribute is escaped, so no value can add markup.

A page contains its style and loads nothing else.
"""

import re
from email.message import Message
from http import HTTPStatus

# Elements are only built and written here; nothing is parsed.
from xml.etree.ElementTree import Element, tostring

from idlestate.web.content_security import content_security
from idlestate.web.http_reply import Reply

HTML = "text/html; charset=utf-8"

_NOT_IN_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters and halves of characters, which no HTML may contain."""

Child = Element | str


def tag(kind: str, *children: Child, **attributes: str | None) -> Element:
    """An element.

    Args:
        kind: its name, such as `td`.
        children: elements and text.
        attributes: `class_` is `class`, other underscores are hyphens. None leaves one out.
    """
    element = Element(kind)
    for name, value in attributes.items():
        if value is not None:
            element.set(name.removesuffix("_").replace("_", "-"), _clean(value))
    for child in children:
        if isinstance(child, Element):
            element.append(child)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + _clean(child)
        else:
            element.text = (element.text or "") + _clean(child)
    return element


def wants_html(headers: Message) -> bool:
    """Whether a client is a browser: it accepts HTML, and does not list JSON before it."""
    accepted = headers.get("Accept", "").lower()
    html, json = accepted.find("text/html"), accepted.find("application/json")
    return html >= 0 and (json < 0 or html < json)


def page_reply(title: str, style: str, *body: Element, status: HTTPStatus = HTTPStatus.OK) -> Reply:
    """A page as a reply.

    Args:
        title: its title.
        style: its style sheet, which is not escaped.
        body: its content.
        status: the status of the reply.
    """
    page = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("link", rel="icon", href="data:,"),
            tag("title", title),
            tag("style", style),
        ),
        tag("body", *body),
        lang="en",
    )
    text = "<!doctype html>\n" + tostring(page, encoding="unicode", method="html") + "\n"
    headers = (
        ("Content-Security-Policy", content_security(style)),
        ("Referrer-Policy", "no-referrer"),
        ("Vary", "Accept"),
    )
    return Reply(text.encode(), HTML, status, headers)


def _clean(text: str) -> str:
    return _NOT_IN_HTML.sub("\N{REPLACEMENT CHARACTER}", text)
