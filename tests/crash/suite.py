"""Histories with kills, compared with one another and with the reference."""

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.crash.crash_input import EVENT_RULE, PROCESSING_RULE, CrashInput, make_input
from tests.crash.history import FOLDERS, ONE_MACHINE, RETAIN, TWO_EXECUTORS, Aim, History, Kill
from tests.crash.operator_judges import JUDGES
from tests.crash.outcome import (
    Difference,
    Outcome,
    differences,
    oracle_differences,
    outcome_of,
    read_back,
)
from tests.crash.side_by_side import suffered

EVENT, PROCESSING = "event", "processing"
EVERY = 4
"""One history in so many is in processing time, and one on two executors."""
KILLS_PER_HISTORY = 6
OWN_SINKS = ("function", "file", "table")
SINKS = (FOLDERS, *OWN_SINKS)
OPERATORS = (*JUDGES, RETAIN, RETAIN)
"""By histories in event time; each meets two executors, which every third of these runs on, so
their number is no multiple of three."""
ON_CLUSTER = (Aim.EXECUTOR, Aim.WORKER, Aim.DRIVER, Aim.NOTED)


@dataclass
class Report:
    """What a suite of kills came to."""

    kills: list[Kill] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def in_flight(self) -> int:
        return sum(kill.in_flight for kill in self.kills)

    @property
    def lost(self) -> int:
        return sum(each.lost.total() for each in self.differences)

    @property
    def doubled(self) -> int:
        return sum(each.doubled.total() for each in self.differences)

    @property
    def is_good(self) -> bool:
        return not self.differences and 2 * self.in_flight >= len(self.kills)

    def __str__(self) -> str:
        return (
            f"kills {len(self.kills)}, in flight {self.in_flight}, "
            f"lost {self.lost}, doubled {self.doubled}"
        )


@dataclass(frozen=True)
class Plan:
    """A history to come."""

    policy: str
    aims: tuple[Aim, ...]
    master: str = ONE_MACHINE
    sink: str = FOLDERS
    operator: str = RETAIN

    def __str__(self) -> str:
        return f"{self.operator}, {self.policy} time, {self.master}, sink: {self.sink}"


NextPlan = Callable[[int, int], Plan | None]
"""Given the number of histories and of kills so far, the next history; None when it is enough."""


def until_killed(kills: int, draw: random.Random, operators: Sequence[str] = OPERATORS) -> NextPlan:
    """One history without a kill, then others until there were so many; every kind comes early.

    Those in event time are of these operators by turns, those in processing time of `retain`.
    """
    in_processing = RETAIN in operators

    def next_plan(number: int, done: int) -> Plan | None:
        left = min(kills - done, KILLS_PER_HISTORY)
        if number == 0:
            return Plan(EVENT, ())
        if left <= 0:
            return None
        # Every kind of history meets every sink and, in event time, every operator.
        sink = SINKS[(number + number // EVERY) % len(SINKS)]
        skipped = (number + 1) // EVERY if in_processing else 0
        turn, which = divmod(number - 1 - skipped, len(operators))
        operator = operators[which]
        if operator != RETAIN:
            sink = OWN_SINKS[turn % len(OWN_SINKS)]
        if number % EVERY == 1:
            aims = (Aim.EXECUTOR, Aim.WORKER, *(draw.choice(ON_CLUSTER) for _ in range(6)))
            return Plan(EVENT, aims[:left], TWO_EXECUTORS, sink, operator)
        if number % EVERY == 2 and in_processing:
            aims = (Aim.NOTED, Aim.REPLAY, Aim.WORKER, Aim.MERGE, Aim.SINK)
            return Plan(PROCESSING, aims[:left], sink=sink)
        ends = (Aim.SWEEP, Aim.OWED)[:left]
        begins = (Aim.START if number > 3 else Aim.NOTED, Aim.MERGE, Aim.COMPACT, Aim.REPLAY)
        rest = (Aim.DRIVER, Aim.MERGE, Aim.REMOVAL, Aim.REPLAY, Aim.WORKER, Aim.SINK, Aim.NOTED)
        others = tuple(draw.choice(rest) for _ in range(KILLS_PER_HISTORY))
        aims = (*(begins + others)[: left - len(ends)], *ends)
        return Plan(EVENT, aims, sink=sink, operator=operator)

    return next_plan


def carry_out(folder: Path, seed: int, files: int, next_plan: NextPlan, at_once: int = 1) -> Report:
    """Run histories over the same input, so many side by side, and compare all of them at the end.

    Each is compared with the reference, those of `retain` in event time also with the first of all.
    """
    given = make_input(folder / "input", seed, files)

    def begin(number: int, done: int) -> tuple[History, tuple[Aim, ...]] | None:
        plan = next_plan(number, done)
        if plan is None:
            return None
        place, draw = folder / f"{plan.policy}-{number}", random.Random(f"{seed}-{number}")
        say(f"{place.name}: {plan}")
        kind = plan.master, plan.sink, plan.operator
        return History(place, given, plan.policy, draw, *kind), plan.aims

    histories = suffered(begin, at_once)
    report = Report([kill for history in histories for kill in history.kills])
    left = read_back([history.out for history in histories], folder / "reader.log")
    first = outcome_of(histories[0].out, left[0])
    check_worth(first)
    for history, each in zip(histories, left, strict=True):
        if history.operator == RETAIN:
            outcome = outcome_of(history.out, each)
            if history.policy == EVENT:
                report.differences += differences(first, outcome)
            report.differences += judge(given, history, outcome)
        else:
            found = JUDGES[history.operator](given, history.plans, each)
            report.differences += [one for one in found if not one.is_none]
    return report


def judge(given: CrashInput, history: History, outcome: Outcome) -> list[Difference]:
    """A history of `retain` and the reference fed with its own journaled times."""
    processing = history.policy == PROCESSING
    rule = PROCESSING_RULE if processing else EVENT_RULE
    return oracle_differences(given, rule, history.plans, outcome, processing=processing)


def check_worth(undisturbed: Outcome) -> None:
    """The input has to hold what a crash could spoil."""
    for name in (
        "created",
        "returning_keys",
        "expired_idle",
        "late",
        "null_time",
        "malformed",
        "live",
    ):
        assert undisturbed.counts[name] > 0, f"the input has no {name}"


def say(text: object) -> None:
    print(text, flush=True)


class Judged(Protocol):
    """What every report of kills can say."""

    differences: list[Difference]

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost or doubled, and half of the kills hit."""


def exit_code(report: Judged) -> int:
    """0 when nothing was lost or doubled and half of the kills hit."""
    for difference in report.differences:
        print(difference, file=sys.stderr)
    return 0 if report.is_good else 1
