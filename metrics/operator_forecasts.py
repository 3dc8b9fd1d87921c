"""The forecasts and budgets of operators, updated as their figures arrive.

A forecast is recomputed when a slot of the history begins, when the size has changed by more than
an eighth since, or when a budget is reached or no longer reached, but not at each scrape.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock

from idlestate.errors import StoreError
from idlestate.metrics.forecast import full_in_s, next_day, next_hour, settling_ms
from idlestate.metrics.history import History, HistoryFile, Size
from idlestate.metrics.operator_statistics import OperatorStatistics, Outlook
from idlestate.retention.budget import Budget, no_budget
from idlestate.retention.policy import Policy

_FAR = 8


@dataclass(slots=True)
class _Known:
    """An operator's history, its file, and the forecast made from it."""

    history: History
    file: HistoryFile | None
    outlook: Outlook = field(default_factory=Outlook)
    made_for: tuple[Policy, Budget, bool, bool] | None = None
    made_of: tuple[int, int] = (0, 0)
    """The keys and bytes for which the forecast was made."""

    def is_near(self, sizes: tuple[int, int]) -> bool:
        """Whether the outlook still fits these keys and bytes."""
        both = zip(sizes, self.made_of, strict=True)
        return all(_FAR * abs(now - before) <= before for now, before in both)


class Outlooks:
    """The outlooks of the operators of one process; any thread may call it.

    Args:
        budget_for: the budget of an operator, by its uid; default: no budgets.
        file_of: the file that keeps the history of an operator over a restart; default: none.
    """

    def __init__(
        self,
        budget_for: Callable[[str], Budget] = no_budget,
        file_of: Callable[[str], HistoryFile | None] = lambda _: None,
    ) -> None:
        self._budget_for = budget_for
        self._file_of = file_of
        self._lock = Lock()
        self._known: dict[str, _Known] = {}

    def note(self, figures: OperatorStatistics, time_ms: int) -> None:
        """Record an operator's size at the operator's own time (event time or the clock), in ms."""
        uid = figures.operator
        with self._lock:
            file = self._file_of(uid)
            known = self._known.get(uid)
            if known is None or known.file != file:
                try:
                    known = _Known(History.load(file, time_ms) if file else History(), file)
                except StoreError:  # the next size retries; the file is not overwritten until then
                    return
                self._known[uid] = known
            budget, sizes = self._budget_for(uid), (figures.live_keys, figures.state_bytes)
            reached = figures.live_keys >= budget.keys, figures.state_bytes >= budget.bytes
            made_for = figures.policy, budget, *reached
            is_new = known.history.add(time_ms, *sizes)
            if not is_new and known.made_for == made_for and known.is_near(sizes):
                return
            known.made_for, known.made_of = made_for, sizes
            known.outlook = _outlook(known.history, figures.policy, budget)
            if is_new and file is not None:
                # A full disk, or no way to the store: the next slot is saved with this one.
                with suppress(OSError):
                    known.history.save(file)

    def complete(self, figures: OperatorStatistics) -> OperatorStatistics:
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
        """Forget all operators except these, with their histories."""
        kept = set(operators)
        with self._lock:
            for uid in self._known.keys() - kept:
                del self._known[uid]
                if file := self._file_of(uid):
                    file.folder.remove(file.name)


def _outlook(history: History, policy: Policy, budget: Budget) -> Outlook:
    keys, size = history.curves(settling_ms(policy))
    return Outlook(
        in_1h=next_hour(keys),
        in_24h=next_day(keys),
        keys_full_s=full_in_s(keys, budget.keys) if budget.keys else math.inf,
        bytes_full_s=full_in_s(size, budget.bytes) if budget.bytes else math.inf,
    )
