"""The advisor's function for callers whose arguments are texts: a command line, a request."""

from collections.abc import Sequence
from typing import Any

from idlestate.advisor.advice import Advice
from idlestate.advisor.advise import advise
from idlestate.errors import RefusedError


def advise_by_texts(
    events: Any,
    *,
    key: Sequence[str],
    event_time: str,
    window: Sequence[str] = (),
    key_budget: str | int | None = None,
    batches: str | None = None,
    bytes_per_key: str | float | None = None,
    **others: str,
) -> Advice:
    """As `advise`, with its other arguments as they are there.

    Args:
        events: the log.
        key: the key columns.
        event_time: the column of event times.
        window: idle windows to try. Default: common windows up to the log's span.
        key_budget: the maximum number of keys.
        batches: digits only are rows per batch; anything else is a duration.
        bytes_per_key: bytes of state per live key.
        **others: `delay` and `null_key`.

    Raises:
        RefusedError: as in `advise`; or a text is not a number.
    """
    return advise(
        events,
        key=list(key),
        event_time=event_time,
        windows=list(window) or None,
        key_budget=_whole(key_budget),
        batches=_whole(batches),
        bytes_per_key=_fraction(bytes_per_key),
        **others,
    )


def _whole(given: Any) -> Any:
    """A number if there are only digits; `advise` reads or refuses any other text."""
    if not isinstance(given, str) or not given.isdecimal():
        return given
    try:
        return int(given)
    except ValueError:  # it has more digits than Python converts
        return given


def _fraction(given: str | float | None) -> float | None:
    try:
        return float(given) if isinstance(given, str) else given
    except ValueError as error:
        text = f"bytes_per_key {given!r} is not a number; pass one such as 100"
        raise RefusedError(text) from error
