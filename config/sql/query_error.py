"""Errors in a query, with their places."""

from dataclasses import dataclass

from idlestate.errors import RefusedError
from idlestate.retention.shown_values import show


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """A place in a query: line and column from 1, and the words there."""

    line: int
    column: int
    words: str

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}"
        return f"{where}, {show(self.words)}" if self.words else where


class QueryError(RefusedError):
    """A query cannot be used: correct it at `place`, as `fix` says."""

    def __init__(self, place: QueryPlace, what: str, fix: str) -> None:
        """Take the place, what is wrong there, and how to fix it."""
        self.place = place
        self.what = what
        self.fix = fix
        super().__init__(f"query, {place}: {what}; {fix}")
