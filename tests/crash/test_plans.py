"""What a suite of kills goes through, by the number of kills."""

from random import Random

from tests.crash.history import RETAIN, TWO_EXECUTORS
from tests.crash.operator_judges import JUDGES
from tests.crash.suite import EVENT, OWN_SINKS, SINKS, Plan, until_killed


def plans(kills: int) -> list[Plan]:
    """All plans, if every kill lands."""
    next_plan, found, done = until_killed(kills, Random(1)), list[Plan](), 0
    while plan := next_plan(len(found), done):
        found.append(plan)
        done += len(plan.aims)
    assert done == kills
    return found


def test_few_kills_meet_functions_and_two_inputs_and_sessions() -> None:
    assert {plan.operator for plan in plans(20)} == {RETAIN, "process", "join", "session"}


def test_many_kills_meet_every_operator_with_every_sink_and_on_two_executors() -> None:
    found = [plan for plan in plans(220) if plan.policy == EVENT and plan.aims]
    assert {plan.operator for plan in found if plan.master == TWO_EXECUTORS} == {*JUDGES, RETAIN}
    for operator in (*JUDGES, RETAIN):
        sinks = {plan.sink for plan in found if plan.operator == operator}
        assert sinks == set(SINKS if operator == RETAIN else OWN_SINKS), operator
