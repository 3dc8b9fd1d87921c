"""The part of a status page that looks a key up and says why it is there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl, quote
from xml.etree.ElementTree import Element

from idlestate.web.html import tag


@dataclass(frozen=True, slots=True)
class KeyAnswer:
    """What is known of a key.

    Attributes:
        sentence: whether it is there, and why.
        facts: names and values.
    """

    sentence: str
    facts: Sequence[tuple[str, str]] = ()


class KeyLookup(Protocol):
    """Looks up keys."""

    def columns(self, uid: str) -> Sequence[tuple[str, str]]:
        """Names of the columns of an operator's keys, and their types as far as they are known."""

    def look_up(self, uid: str, query: str) -> KeyAnswer:
        """What is known of the key that a query asks for as `column=value&...`.

        Raises:
            ValueError: it names other columns, or a value is not of the column's type.
        """


def lookup_view(
    uid: str, columns: Sequence[tuple[str, str]], query: str, answer: KeyAnswer | str | None
) -> Element:
    """The form, and below it the answer.

    Args:
        uid: the operator.
        columns: names and types of the columns of its keys.
        query: what was asked; empty if nothing was.
        answer: the answer, or what was wrong with the question; None if nothing was asked.
    """
    asked = dict(parse_qsl(query, keep_blank_values=True))
    wrong = isinstance(answer, str)
    fields = [
        tag(
            "label",
            f"{name} ",
            tag("span", f"({kind})" if kind else "", class_="muted"),
            tag(
                "input",
                name=name,
                value=asked.get(name, ""),
                autocomplete="off",
                spellcheck="false",
                aria_invalid="true" if wrong else None,
                aria_describedby="answer" if wrong else None,
            ),
        )
        for name, kind in columns
    ]
    return tag(
        "section",
        tag("h2", "Look up a key", id="key"),
        tag("p", "A look-up does not extend the key's life.", class_="muted"),
        tag("form", *fields, tag("button", "Look up"), action=f"/operators/{quote(uid)}/keys#key"),
        *([] if answer is None else [_answer(answer)]),
        aria_labelledby="key",
    )


def _answer(answer: KeyAnswer | str) -> Element:
    if isinstance(answer, str):
        return tag("p", answer, role="alert", id="answer", class_="bad")
    return tag(
        "div", tag("p", answer.sentence), facts_list(answer.facts), id="answer", role="status"
    )


def facts_list(facts: Sequence[tuple[str, str]]) -> Element:
    """Names and values, as a list of both."""
    pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts]
    return tag("dl", *pairs) if pairs else tag("p")
