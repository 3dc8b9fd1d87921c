"""Which policy a state of an operator gets.

1. The policy that the pipeline names.
2. Else, of the selectors that match, the most specific one. The operator's pattern is compared
   first: a name without `*` and `?` beats a pattern, and of two patterns the one with more
   characters before its first `*` or `?` wins. If the operator's patterns are equal in that, the
   state's are compared in the same way. If they are equal too, the first in the file wins.
3. Else `defaults` alone; where these switch no rule on, state grows without bound.
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
    """Whether a pattern is a plain name, and how many characters stand before its first glob."""
    globs = [at for at, character in enumerate(pattern) if character in "*?"]
    return not globs, min(globs, default=len(pattern))
