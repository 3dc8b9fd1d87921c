"""Sweeps: removing what has expired, a budget at a time."""

from dataclasses import dataclass

from idlestate.backends.keyed.cleanup import Visitor


@dataclass(slots=True)
class SweepReport:
    """What one call did.

    Attributes:
        seen: keys looked at.
        removed: values, list elements and map entries removed.
        done: whether every state was walked to its end.
    """

    seen: int = 0
    removed: int = 0
    done: bool = False


@dataclass(slots=True)
class Sweep:
    """One walk over one state.

    Attributes:
        visitor: does the walking.
        done: whether it came to the end.
    """

    visitor: Visitor
    done: bool = False
    _started: bool = False

    def go_on(self, now_ms: int, budget: int, report: SweepReport) -> None:
        """Look at up to `budget` keys more."""
        if not self._started:
            self.visitor.restart()
            self._started = True
        seen, removed = self.visitor.visit(budget, now_ms)
        report.seen += seen
        report.removed += removed
        self.done = seen < budget
