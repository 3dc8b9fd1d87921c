"""Numbers of things, in words."""

import pytest

from idlestate.config.plurals import counted


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 keys"), (1, "1 key"), (2, "2 keys"), (2_000, "2,000 keys")]
)
def test_a_plural_ends_in_s(number: int, words: str) -> None:
    assert counted(number, "key") == words


def test_another_plural_is_given() -> None:
    assert counted(1, "life", "lives") == "1 life"
    assert counted(2, "life", "lives") == "2 lives"
