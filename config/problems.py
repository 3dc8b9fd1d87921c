"""Problems of a file: where, what is wrong, and how to fix it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from idlestate.errors import RefusedError
from idlestate.retention.shown_values import SHOWN, show

FieldPath = tuple[str | int, ...]
"""The keys and list positions that lead to a value, from the top of the file."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_LISTED = 100  # problems in the text of an error


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to correct, or a warning in `Config.warnings`.

    Attributes:
        file: the file as the caller named it.
        line: line in the file, from 1; 0 for the file as a whole.
        field_path: where in the file, such as `policies.sessions.idle.max` or `selectors[0]`;
            empty at the top.
        what: what is wrong.
        fix: what to write instead.
    """

    file: str
    line: int
    field_path: str
    what: str
    fix: str

    def render(self) -> str:
        """The problem on one line: `file.yaml:12: policies.sessions.idle.max: what; fix`."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        where = f"{self.field_path}: " if self.field_path else ""
        text = f"{place}: {where}{self.what}; {self.fix}"
        return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class ConfigError(RefusedError):
    """A file cannot be used. Correct every problem in `problems` and load it again."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Take all problems of a file in line order; at least one."""
        self.problems = tuple(problems)
        lines = [problem.render() for problem in self.problems[:_LISTED]]
        more = len(self.problems) - len(lines)
        super().__init__("\n".join([*lines, f"and {more} more"] if more else lines))


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem before its file and line are known."""

    path: FieldPath
    what: str
    fix: str
    line: int = 0
    """For a text with several lines, the line of the problem, from 1."""


def locate(finding: Finding, file: str, lines: Mapping[FieldPath, int]) -> Problem:
    """Add the line to a finding: its field's line or, if the field is missing, its section's."""
    path = (*finding.path, finding.line - 1) if finding.line else finding.path
    while path not in lines and path:
        path = path[:-1]
    return Problem(file, lines.get(path, 0), render_path(finding.path), finding.what, finding.fix)


def render_path(path: FieldPath) -> str:
    """Write a path as `policies.sessions.idle.max`; names with other characters in quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = _PLAIN.fullmatch(step) and len(step) <= SHOWN
            name = step if plain else show(step)
            text += f".{name}" if text else name
    return text


def listed(names: Iterable[str]) -> str:
    """Names, separated by commas; at most the first dozen."""
    first = list(names)
    return ", ".join(first[:12]) + (", ..." if first[12:] else "")
