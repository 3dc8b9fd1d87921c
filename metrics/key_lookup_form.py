"""The part of a status page that looks a key up and says why it is there.

In URLs, a column without `=` is null: `?user&day=2026-01-31`. A browser cannot send that from a
form, so each column has a box for null next to its field. If it is ticked, the form names the
column twice, as `user=&user=null`. No other query does so, whatever the columns are called.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, unquote_plus
from xml.etree.ElementTree import Element

from idlestate.web.html import tag


@dataclass(frozen=True, slots=True)
class KeyAnswer:
    """What is known about a key.

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
        """What is known about the key in a query such as `column=value&...`, where `column` means
        null.

        Raises:
            ValueError: it names other columns, repeats one, or a value is not of the column's type.
        """


def as_in_urls(query: str) -> str:
    """The key that a form asks for, in the notation of URLs.

    Raises:
        ValueError: a column has a value and is marked as null.
    """
    found = list[str]()
    for part in query.split("&"):
        name, _, value = part.partition("=")
        before, _, text = found[-1].partition("=") if found else ("", "", "")
        if not (found and name == before and value == "null"):
            found.append(part)
        elif text:
            raise ValueError(f"key column {unquote_plus(name)}: enter a value or null, not both")
        else:
            found[-1] = name
    return "&".join(found)


def lookup_view(
    uid: str, columns: Sequence[tuple[str, str]], query: str, answer: KeyAnswer | str | None
) -> Element:
    """The form, and below it the answer.

    Args:
        uid: the operator.
        columns: names and types of the columns of its keys.
        query: the query; empty if nothing was asked.
        answer: the answer, or the problem with the query; None if nothing was asked.
    """
    asked = dict[str, list[str | None]]()
    for part in query.split("&"):
        name, is_given, value = part.partition("=")
        asked.setdefault(unquote_plus(name), []).append(unquote_plus(value) if is_given else None)
    wrong = isinstance(answer, str)
    fields = [
        field
        for name, kind in columns
        for field in _fields(name, kind, asked.get(name, [""]), wrong=wrong)
    ]
    return tag(
        "section",
        tag("h2", "Look up a key", id="key"),
        tag("p", "A look-up does not extend the key's life.", class_="muted"),
        tag("form", *fields, tag("button", "Look up"), action=f"/operators/{quote(uid)}/keys#key"),
        *([] if answer is None else [_answer(answer)]),
        aria_labelledby="key",
    )


def _fields(
    name: str, kind: str, asked: Sequence[str | None], *, wrong: bool
) -> tuple[Element, Element]:
    """The field of a column, and its box for null."""
    field = tag(
        "input",
        name=name,
        value=asked[0] or "",
        autocomplete="off",
        spellcheck="false",
        aria_invalid="true" if wrong else None,
        aria_describedby="answer" if wrong else None,
    )
    is_null = asked[0] is None or len(asked) > 1
    box = tag(
        "input", type="checkbox", name=name, value="null", checked="checked" if is_null else None
    )
    label = tag(
        "label", f"{name} ", tag("span", f"({kind})" if kind else "", class_="muted"), field
    )
    return label, tag("label", box, f" {name} is null", class_="box")


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
