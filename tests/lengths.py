"""Tests in several forms: a short one for every change, and others that also find what is rare.

`make test-all` runs long forms with more kills, and with more random cases of a law. Any other long
form of a test that has a short one is a variant, on another backend, say, or with another rule:
`make variants` runs these.
"""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import pytest
from hypothesis import HealthCheck, given, settings

Law = TypeVar("Law", bound=Callable[..., None])

KILLS: Final = Path(__file__).with_name("crash")
"""Where long forms of tests have more kills."""

TIMES: Final = float(os.environ.get("IDLESTATE_LAW_TIMES", "1.5"))
"""How many times the random cases of the short form the long form of a law has."""


def short_and_long(name: str, short: int, long: int) -> pytest.MarkDecorator:
    """Parametrize a test by a number: of kills, say."""
    return pytest.mark.parametrize(
        name, [short, pytest.param(long, marks=pytest.mark.long)], ids=str
    )


def by_cases(name: str, short: int) -> pytest.MarkDecorator:
    """Parametrize a law by a number of random cases; `make laws` has many more in the long form."""
    long = pytest.param(math.ceil(TIMES * short), marks=(pytest.mark.long, pytest.mark.law))
    return pytest.mark.parametrize(name, [short, long], ids=str)


def law(short: int, *strategies: Any, **named: Any) -> Callable[[Law], Law]:
    """Make a property a law, in both forms. It takes no fixtures.

    Args:
        short: the random cases of the short form.
        strategies, named: what cases are made from.
    """

    def make(check: Law) -> Law:
        @by_cases("examples", short)
        def test(examples: int) -> None:
            few = settings(max_examples=examples, suppress_health_check=list(HealthCheck))
            few(given(*strategies, **named)(check))()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return cast("Law", test)

    return make


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark variants, once all that is long is marked."""
    long = [item for item in items if item.get_closest_marker("long")]
    short = {_test_of(item) for item in items if not item.get_closest_marker("long")}
    for item in long:
        stays = item.get_closest_marker("law") or KILLS in item.path.parents
        if not stays and _test_of(item) in short:
            item.add_marker(pytest.mark.variant)


def _test_of(item: pytest.Item) -> str:
    """The test that an item is a form of."""
    return item.nodeid.partition("[")[0]
