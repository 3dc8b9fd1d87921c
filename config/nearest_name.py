"""The known name that a misspelt one probably meant."""

import difflib
from collections.abc import Iterable

from idlestate.retention.shown_values import SHOWN


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known word that was probably meant; None if none is at least this similar (0 to 1)."""
    by_folded = {_fold(each): each for each in known}
    found = difflib.get_close_matches(_fold(word), by_folded, n=1, cutoff=likeness)
    return by_folded[found[0]] if found else None


def _fold(word: str) -> str:
    return word[:SHOWN].casefold().replace("-", "_")
