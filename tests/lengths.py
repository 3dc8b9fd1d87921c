"""Tests in two forms: a short one for every change, and a long one that also finds what is rare."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, given, settings

Law = TypeVar("Law", bound=Callable[..., None])


def short_and_long(name: str, short: int, long: int) -> pytest.MarkDecorator:
    """Parametrize a test by a number: of random cases, say, or of kills."""
    return pytest.mark.parametrize(
        name, [short, pytest.param(long, marks=pytest.mark.long)], ids=str
    )


def law(short: int, long: int, *strategies: Any, **named: Any) -> Callable[[Law], Law]:
    """Make a property a test of so many random cases, in both forms. It takes no fixtures."""

    def make(check: Law) -> Law:
        @short_and_long("examples", short, long)
        def test(examples: int) -> None:
            few = settings(max_examples=examples, suppress_health_check=list(HealthCheck))
            few(given(*strategies, **named)(check))()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return cast("Law", test)

    return make
