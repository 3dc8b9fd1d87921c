"""A limit on the series of a process: a scrape stays small regardless of the label values."""

from collections.abc import Iterable
from typing import TypeVar

_K = TypeVar("_K", bound=str)

MAX_SERIES = 200_000
"""For a thousand operators: about 15 MB of text."""


class SeriesCap:
    """Admits groups of series, such as those of one operator, up to a number of series.

    Admitted groups stay, so the same series are shown at every scrape; others take the place of
    groups that disappear.

    Args:
        most: the maximum number of series.

    Attributes:
        overflowed: series that were not admitted, so far; one that waits counts once.
    """

    def __init__(self, most: int = MAX_SERIES) -> None:
        self._most = most
        self._admitted: dict[tuple[str, str], int] = {}
        self._waiting: set[tuple[str, str]] = set()
        self.overflowed = 0

    def admitted(self, kind: str, values: Iterable[str], series: int) -> set[str]:
        """The groups of a kind that are shown.

        Args:
            kind: what they are, such as the name of their label.
            values: all current groups of this kind.
            series: the number of series of each group.
        """
        now = {(kind, value) for value in values}
        for known in (self._admitted.keys(), self._waiting):
            for gone in [each for each in known if each[0] == kind and each not in now]:
                self._admitted.pop(gone, None)
                self._waiting.discard(gone)
        room = self._most - sum(self._admitted.values())
        for each in sorted(now - self._admitted.keys()):
            if series <= room:
                self._admitted[each] = series
                self._waiting.discard(each)
                room -= series
            elif each not in self._waiting:
                self._waiting.add(each)
                self.overflowed += series
        return {value for _, value in now & self._admitted.keys()}

    def left_out(self, kind: str) -> set[str]:
        """The groups of a kind that are not shown."""
        return {value for of, value in self._waiting if of == kind}
