"""Namespaces of a table on heap, numbered for its columns."""

from collections.abc import Iterable
from typing import Any


class Spaces:
    """Numbers namespaces; 0 is that of state without namespaces."""

    def __init__(self, numbers: dict[Any, int] | None = None, used: int = 1) -> None:
        """Start with these numbers, and the count of all numbers ever given."""
        self._numbers = {None: 0} if numbers is None else numbers
        self._used = used

    def find(self, namespace: Any) -> int:
        """The number of a namespace; for a new one, an unused number."""
        return self._numbers.get(namespace, self._used)

    def number(self, namespace: Any) -> int:
        """The number of a namespace; a new one gets a number."""
        found = self._numbers.setdefault(namespace, self._used)
        self._used = max(self._used, found + 1)
        return found

    @property
    def names(self) -> dict[int, Any]:
        """The namespace of each number."""
        return {number: name for name, number in self._numbers.items()}

    def keep(self, used: Iterable[int]) -> None:
        """Drop all namespaces except these."""
        kept = {0, *used}
        self._numbers = {name: each for name, each in self._numbers.items() if each in kept}

    def copy(self) -> "Spaces":
        """A copy of the numbers."""
        return Spaces(dict(self._numbers), self._used)
