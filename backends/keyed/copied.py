"""Columns that a snapshot reads while the table goes on."""

from abc import ABC, abstractmethod
from copy import copy
from typing import Self


class Copied(ABC):
    """Can be copied as it is now."""

    def copy(self) -> Self:
        """This as it is now, for reading."""
        other = copy(self)
        other.part()
        return other

    @abstractmethod
    def part(self) -> None:
        """Have for itself what changes: it is shared with what this was copied from."""
