"""One edit of the source that must make a test fail."""

from pathlib import Path
from typing import NamedTuple

SUITES = ("tests/retention", "tests/backends", "tests/sidecar")


class Mutation(NamedTuple):
    """An edit that must make a test of its suites fail; `old` stands in the room exactly once."""

    name: str
    room: str
    old: str
    new: str
    suites: tuple[str, ...] = SUITES

    def file(self, root: Path) -> Path:
        """The file that holds the text.

        Raises:
            LookupError: no file has it, or it is there more than once.
        """
        counts = {
            path: path.read_text().count(self.old) for path in (root / self.room).rglob("*.py")
        }
        found = {path.name: times for path, times in counts.items() if times}
        if sum(found.values()) != 1:
            raise LookupError(f"{self.room} has {self.old!r} {found or 'nowhere'}")
        return next(path for path, times in counts.items() if times)
