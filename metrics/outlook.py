"""What is expected of operators: their forecasts and budgets, kept up as their figures come in.

A forecast is made anew when a slot of the history begins, not at each scrape.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from idlestate.metrics.forecast import full_in_s, next_day, next_hour, settling_ms
from idlestate.metrics.growth_curve import Size
from idlestate.metrics.history import History
from idlestate.metrics.operator_figures import OperatorFigures, Outlook
from idlestate.retention.budget import Budget
from idlestate.retention.policy import Policy


@dataclass(slots=True)
class _Known:
    """An operator's history, and its curves as of the newest slot."""

    history: History
    outlook: Outlook = field(default_factory=Outlook)
    made_for: tuple[Policy, Budget] | None = None


class Outlooks:
    """The outlooks of the operators of one process; any thread may call it.

    Args:
        budget_for: the budget of an operator, by its uid; default: no budgets.
        folder: where histories are kept over a restart; None: nowhere.
    """

    def __init__(
        self, budget_for: Callable[[str], Budget] = lambda _: Budget(), folder: Path | None = None
    ) -> None:
        self._budget_for = budget_for
        self._folder = folder
        self._lock = Lock()
        self._known: dict[str, _Known] = {}

    def note(self, figures: OperatorFigures, time_ms: int) -> None:
        """Take an operator's size at a time of its own (event time or the clock), in ms."""
        uid = figures.operator
        with self._lock:
            known = self._of(uid)
            made_for = figures.policy, self._budget_for(uid)
            is_new = known.history.add(time_ms, figures.live_keys, figures.state_bytes)
            if not is_new and known.made_for == made_for:
                return
            known.made_for = made_for
            known.outlook = _outlook(known.history, *made_for)
            if is_new and self._folder is not None:
                with suppress(OSError):  # a full disk: the next slot is saved with this one
                    known.history.save(_path(self._folder, uid))

    def restore(self, uid: str, sizes: Iterable[tuple[int, int, int]]) -> None:
        """Take the sizes that an operator had before: time in ms, live keys, bytes; in order."""
        with self._lock:
            history = self._of(uid).history
            for time_ms, live_keys, state_bytes in sizes:
                history.add(time_ms, live_keys, state_bytes)

    def complete(self, figures: OperatorFigures) -> OperatorFigures:
        """The figures with the operator's budget and outlook."""
        known = self._known.get(figures.operator)
        return replace(
            figures,
            budget=self._budget_for(figures.operator),
            outlook=known.outlook if known else Outlook(),
        )

    def sizes(self, uid: str) -> list[Size]:
        """The live keys of an operator over the last days, oldest first."""
        known = self._known.get(uid)
        return known.history.sizes() if known else []

    def keep(self, operators: Iterable[str]) -> None:
        """Forget all operators but these, and their histories."""
        kept = set(operators)
        with self._lock:
            for uid in self._known.keys() - kept:
                del self._known[uid]
                if self._folder is not None:
                    _path(self._folder, uid).unlink(missing_ok=True)

    def _of(self, uid: str) -> _Known:
        if uid not in self._known:
            history = History.load(_path(self._folder, uid)) if self._folder else History()
            self._known[uid] = _Known(history)
        return self._known[uid]


def _path(folder: Path, uid: str) -> Path:
    return folder / f"{uid}.npy"


def _outlook(history: History, policy: Policy, budget: Budget) -> Outlook:
    keys, size = history.curves(settling_ms(policy))
    return Outlook(
        in_1h=next_hour(keys),
        in_24h=next_day(keys),
        keys_full_s=full_in_s(keys, budget.keys) if budget.keys else math.inf,
        bytes_full_s=full_in_s(size, budget.bytes) if budget.bytes else math.inf,
    )
