"""Tests in two forms: a short one for every change, and a long one that also finds what is rare."""

import pytest


def short_and_long(name: str, short: int, long: int) -> pytest.MarkDecorator:
    """Parametrize a test by a number: of random cases, say, or of kills."""
    return pytest.mark.parametrize(
        name, [short, pytest.param(long, marks=pytest.mark.long)], ids=str
    )
