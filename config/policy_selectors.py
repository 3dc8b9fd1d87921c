"""Which policy a state of an operator gets.

1. The policy that the pipeline names.
2. Else the most specific selector that matches. The operator's patterns are compared first: a name
   without `*` and `?` beats a pattern, and of two patterns the one with more characters before its
   first `*` or `?` wins. On a tie, the state's patterns are compared in the same way. On another
   tie, the first selector in the file wins.
3. Else `defaults` alone; if they have no expiry rule, state grows without bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from idlestate.config.pipeline_settings import Selector

AGGREGATES = "aggregates"
"""The name of the state that holds an operator's aggregates."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The policy a state gets, and why.

    Attributes:
        policy: its name; None for `defaults` alone.
        because: what decided, such as `selectors[0]`, for people.
    """

    policy: str | None
    because: str


def choose(uid: str, state: str, named: str | None, selectors: Sequence[Selector]) -> Choice:
    """The policy of a state, given what its pipeline names (or None) and all selectors."""
    if named is not None:
        return Choice(named, "named by the pipeline")
    best: tuple[tuple[bool, int, bool, int], int] | None = None
    for position, selector in enumerate(selectors):
        if fnmatchcase(uid, selector.operator) and fnmatchcase(state, selector.state):
            rank = (*_specificity(selector.operator), *_specificity(selector.state))
            if best is None or rank > best[0]:
                best = rank, position
    if best is None:
        return Choice(None, "no selector matches: defaults alone")
    return Choice(selectors[best[1]].policy, f"selectors[{best[1]}]")


def _specificity(pattern: str) -> tuple[bool, int]:
    """Whether a pattern is a plain name, and the number of characters before its first glob."""
    globs = [at for at, character in enumerate(pattern) if character in "*?"]
    return not globs, min(globs, default=len(pattern))
