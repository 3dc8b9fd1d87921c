"""Histories of queries with sidecars, compared with Spark's own store and with the reference."""

import random
from collections import Counter
from collections.abc import Sequence
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
from tests.crash.suite import EVENT

KILLS_PER_HISTORY = 12
OPERATORS = (
    *("process", "join", "deduplicate_last", RETAIN),
    *("join_asof", "deduplicate_first", "session"),
)
"""By histories with a private sidecar; those with a served one are of `retain`."""
PRIVATE = (*(Victim.SIDECAR,) * 3, *(Victim.TASK,) * 2, Victim.DRIVER, Victim.ALL)
SERVED = (*(Victim.SIDECAR, Victim.WORKER) * 2, Victim.TASK, Victim.DRIVER, Victim.ALL)
"""What dies: mostly what is started again beside a query that goes on, which costs no JVM."""


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
    folder: Path,
    backend: str,
    seed: int,
    files: int,
    kills: int,
    at_once: int = 1,
    per_history: int = KILLS_PER_HISTORY,
    operators: Sequence[str] = OPERATORS,
) -> SidecarReport:
    """Kill so many times over as many histories as it takes, and compare all of them.

    With `retain` among the operators, private and served ones take turns.
    """
    given = make_input(folder / "input", seed, files)
    in_spark = History(folder / "spark", given, EVENT, random.Random(seed))
    in_spark.suffer([])

    def begin(number: int, done: int) -> tuple[SidecarHistory, list[Victim]] | None:
        if done >= kills:
            return None
        place, draw = folder / f"{backend}-{number}", random.Random(f"{seed}-{number}")
        is_served = number % 2 == 1 and RETAIN in operators
        may_die = SERVED if is_served else PRIVATE
        victims = [draw.choice(may_die) for _ in range(min(kills - done, per_history))]
        turn = number // 2 if RETAIN in operators else number
        operator = RETAIN if is_served else operators[turn % len(operators)]
        return SidecarHistory(place, given, backend, draw, is_served, operator), victims

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
