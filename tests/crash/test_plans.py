"""What a suite of kills goes through, by the number of kills."""

from collections.abc import Sequence
from random import Random

from tests.crash import sidecar_suite
from tests.crash.history import ONE_MACHINE, RETAIN, TWO_EXECUTORS
from tests.crash.operator_judges import JUDGES
from tests.crash.suite import EVENT, OPERATORS, OWN_SINKS, SINKS, Plan, until_killed


def plans(kills: int, operators: Sequence[str] = OPERATORS) -> list[Plan]:
    """All plans, if every kill lands."""
    next_plan, found, done = until_killed(kills, Random(1), operators), list[Plan](), 0
    while plan := next_plan(len(found), done):
        found.append(plan)
        done += len(plan.aims)
    assert done == kills
    return found


def test_few_kills_meet_functions_and_two_inputs_and_sessions() -> None:
    assert {plan.operator for plan in plans(20)} == {RETAIN, "process", "join", "session"}


def test_many_kills_meet_every_operator_with_every_sink_and_on_two_executors() -> None:
    found = [plan for plan in plans(260) if plan.policy == EVENT and plan.aims]
    assert {plan.operator for plan in found if plan.master == TWO_EXECUTORS} == {*JUDGES, RETAIN}
    for operator in (*JUDGES, RETAIN):
        sinks = {plan.sink for plan in found if plan.operator == operator}
        assert sinks == set(SINKS if operator == RETAIN else OWN_SINKS), operator


def test_kills_of_chosen_operators_spend_none_on_others() -> None:
    _, *found = plans(36, ["deduplicate_first", "deduplicate_last"])
    assert [plan.operator for plan in found] == ["deduplicate_first", "deduplicate_last"] * 3
    assert {plan.master for plan in found} == {ONE_MACHINE, TWO_EXECUTORS}


def test_private_and_served_sidecars_take_turns_until_there_were_so_many_kills() -> None:
    next_plan, found, done = sidecar_suite.until_killed(170), list[sidecar_suite.SidecarPlan](), 0
    while plan := next_plan(len(found), done, Random(len(found))):
        found.append(plan)
        done += len(plan.victims)
    assert done == 170
    assert [plan.is_served for plan in found] == [False, True] * 7 + [False]
    private = {plan.operator for plan in found if not plan.is_served}
    assert private == set(sidecar_suite.OPERATORS)
