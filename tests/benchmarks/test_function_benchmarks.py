"""The benchmarks of user functions run, and print a ratio for everything that they compare."""

from collections.abc import Callable
from types import ModuleType

import pytest

pytestmark = pytest.mark.long

Bench = Callable[[str], ModuleType]


def test_forms_of_functions_are_measured_against_each_other(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("function_forms").main(["--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["uniform"] * 6 + ["zipf"] * 6
    assert [line.endswith(" 1.00x") for line in lines[::3]] == [True] * 4


def test_states_of_functions_are_measured_against_those_of_the_library(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("function_states").main(["--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in lines] == ["value", "value and timer", "map entry"]
    assert all(line.endswith("x") for line in lines)
