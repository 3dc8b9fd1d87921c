"""Histories of queries with sidecars, compared with Spark's own store and with the reference."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.crash_input import EVENT_RULE, make_input
from tests.crash.history import RETAIN, History
from tests.crash.operator_judges import JUDGES
from tests.crash.outcome import (
    Difference,
    Outcome,
    compare,
    compare_counts,
    oracle_differences,
    outcome_of,
    read_back,
    unbatched,
)
from tests.crash.side_by_side import suffered
from tests.crash.sidecar_history import SidecarHistory, SidecarKill, Victim
from tests.crash.suite import EVENT, say

KILLS_PER_HISTORY = 12
OPERATORS = (
    *("process", "join", "deduplicate_last", RETAIN),
    *("join_asof", "deduplicate_first", "session"),
)
"""By histories with a private sidecar; those with a served one are of `retain`."""
PRIVATE = (*(Victim.SIDECAR,) * 3, *(Victim.TASK,) * 2, Victim.DRIVER, Victim.ALL)
SERVED = (*(Victim.SIDECAR, Victim.WORKER) * 2, Victim.TASK, Victim.DRIVER, Victim.ALL)
"""What dies: mostly what is started again beside a query that goes on, which costs no JVM."""


@dataclass(frozen=True)
class SidecarPlan:
    """A history to come."""

    victims: tuple[Victim, ...]
    is_served: bool = False
    operator: str = RETAIN

    def __str__(self) -> str:
        return f"{self.operator}, {'served' if self.is_served else 'private'} sidecar"


NextPlan = Callable[[int, int, random.Random], SidecarPlan | None]
"""Given the number of histories and of kills so far, and the chance of the next history, its plan;
None when it is enough."""


def until_killed(kills: int, operators: Sequence[str] = OPERATORS) -> NextPlan:
    """Histories of these operators by turns, until there were so many kills.

    With `retain` among the operators, private and served ones take turns.
    """

    def next_plan(number: int, done: int, draw: random.Random) -> SidecarPlan | None:
        if done >= kills:
            return None
        is_served = number % 2 == 1 and RETAIN in operators
        may_die = SERVED if is_served else PRIVATE
        victims = tuple(draw.choice(may_die) for _ in range(min(kills - done, KILLS_PER_HISTORY)))
        turn = number // 2 if RETAIN in operators else number
        operator = RETAIN if is_served else operators[turn % len(operators)]
        return SidecarPlan(victims, is_served, operator)

    return next_plan


@dataclass
class SidecarReport:
    """What a suite of kills came to."""

    kills: list[SidecarKill] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def in_flight(self) -> int:
        return sum(kill.in_flight for kill in self.kills)

    @property
    def is_good(self) -> bool:
        return not self.differences and 2 * self.in_flight >= len(self.kills)

    def __str__(self) -> str:
        by = Counter(str(kill.victim) for kill in self.kills)
        lost = sum(each.lost.total() for each in self.differences)
        doubled = sum(each.doubled.total() for each in self.differences)
        return (
            f"kills {len(self.kills)} ({', '.join(f'{n} {name}' for name, n in by.items())}), "
            f"in flight {self.in_flight}, lost {lost}, doubled {doubled}"
        )


def carry_out(
    folder: Path, backend: str, seed: int, files: int, next_plan: NextPlan, at_once: int = 1
) -> SidecarReport:
    """Run histories over the same input, so many side by side, and compare all of them at the end.

    Each is compared with the reference, those of `retain` also with a calm one of Spark's own
    store.
    """
    given = make_input(folder / "input", seed, files)
    in_spark = History(folder / "spark", given, EVENT, random.Random(seed))
    in_spark.suffer([])

    def begin(number: int, done: int) -> tuple[SidecarHistory, tuple[Victim, ...]] | None:
        place, draw = folder / f"{backend}-{number}", random.Random(f"{seed}-{number}")
        plan = next_plan(number, done, draw)
        if plan is None:
            return None
        say(f"{place.name}: {plan}")
        history = SidecarHistory(place, given, backend, draw, plan.is_served, plan.operator)
        return history, plan.victims

    histories = suffered(begin, at_once)
    report = SidecarReport([kill for history in histories for kill in history.kills])
    outs = [in_spark.out, *(history.out for history in histories)]
    first, *left = read_back(outs, folder / "reader.log")
    wanted = outcome_of(in_spark.out, first)
    for history, each in zip(histories, left, strict=True):
        if history.operator == RETAIN:
            outcome = outcome_of(history.out, each)
            report.differences += against_spark(wanted, outcome)
            report.differences += oracle_differences(
                given, EVENT_RULE, history.plans, outcome, processing=False
            )
        else:
            found = JUDGES[history.operator](given, history.plans, each)
            report.differences += [one for one in found if not one.is_none]
    return report


def against_spark(wanted: Outcome, found: Outcome) -> list[Difference]:
    """Expire rows come in later batches than in Spark; all else is the same."""
    every = [
        compare("results", wanted.last_updates(), found.last_updates()),
        compare("expired", unbatched(wanted.expired), unbatched(found.expired)),
        compare("rejects", unbatched(wanted.rejects), unbatched(found.rejects)),
        compare("states", wanted.lives, found.lives),
        compare_counts(wanted.counts, found.counts),
    ]
    return [each for each in every if not each.is_none]
