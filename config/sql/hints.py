"""Hints about retention: STATE_TTL('clicks'='1d') and RETENTION('clicks'='sessions').

As in Flink, a hint takes precedence over the policy of a pipeline or a caller; '0s' means never.
"""

import re
from collections.abc import Iterable, Iterator

from idlestate.config.sql.query_error import QueryError, QueryPlace
from idlestate.config.sql.query_plan import Retention
from idlestate.config.sql.words import Words
from idlestate.retention.durations import DurationError, parse_duration
from idlestate.retention.shown_values import show

_HINT = re.compile(r"\s*,?\s*(\w+)\s*(?:\(([^()]*)\))?")
_ENTRY = re.compile(r"\s*'([^']*)'\s*=\s*'([^']*)'\s*")
_SUPPORTED = "the hints are STATE_TTL('name'='1d') and RETENTION('name'='policy')"


def retention_by_input(
    hints: Iterable[Words], inputs: Iterable[frozenset[str]]
) -> list[Retention | None]:
    """The retention that hints set for each input.

    Args:
        hints: the words `/*+ ... */` of a query and of its subqueries.
        inputs: for each input the names by which a hint may call it, in lower case.

    Raises:
        QueryError: a hint is unknown, lacks a valid input or duration, or an input has two hints.
    """
    names = list(inputs)
    found: list[Retention | None] = [None] * len(names)
    for words in hints:
        for name, retention in _entries(words):
            meant = [at for at, each in enumerate(names) if name.lower() in each]
            if len(meant) != 1:
                every = [each for some in names for each in some]
                fix = f"use {' or '.join(sorted(n for n in every if every.count(n) == 1))}"
                what = "is both inputs" if meant else "is not an input here"
                raise QueryError(retention.place, f"{show(name)} {what}", fix)
            if found[meant[0]] is not None:
                what = f"a second hint for {show(name)}"
                raise QueryError(retention.place, what, "keep one of them")
            found[meant[0]] = retention
    return found


def _entries(words: Words) -> Iterator[tuple[str, Retention]]:
    text = words.verbatim.removesuffix("*/").rstrip()
    at = len("/*+")
    while at < len(text):
        hint = _HINT.match(text, at)
        kind = hint[1].upper() if hint else ""
        if hint is None or kind not in {"STATE_TTL", "RETENTION"}:
            place = words.place_of(hint.start(1) if hint else at, hint.end() if hint else len(text))
            raise QueryError(place, f"unknown hint {kind}".rstrip(), _SUPPORTED)
        place = words.place_of(hint.start(1), hint.end())
        for entry in (hint[2] or "").split(","):
            found = _ENTRY.fullmatch(entry)
            if found is None:
                raise QueryError(place, "this hint cannot be read", _SUPPORTED)
            yield found[1], _retention(place, kind, found[2])
        at = hint.end()


def _retention(place: QueryPlace, kind: str, value: str) -> Retention:
    if kind == "RETENTION":
        return Retention(None, value, place)
    try:
        return Retention(parse_duration(value), None, place)
    except DurationError as error:
        raise QueryError(place, error.what, error.fix) from error
