"""Classes of functions that a file names, and names that lead to none."""

import re
from pathlib import Path

import pytest

from idlestate.errors import RefusedError
from idlestate.functions.function_class import load_function


@pytest.mark.parametrize(
    ("reference", "what"),
    [
        ("nowhere.alerts:A", "module nowhere is not found; install it, or add its folder to"),
        ("tests.nowhere:A", "module tests.nowhere is not found; install it"),
        ("tests.service.alerts:A", "A is not found; tests.service.alerts has Second, Limit"),
        ("tests.functions.scripted_batches:A", "scripted_batches has Batched, Both"),
        ("tests.service.alerts:pa", "pa is not a class derived from KeyedProcessFunction"),
        ("tests.service.alerts:Limit", "Limit() raised TypeError: "),
    ],
)
def test_a_function_that_cannot_be_loaded(reference: str, what: str) -> None:
    with pytest.raises(RefusedError, match=re.escape(what)) as caught:
        load_function("p", reference)
    assert str(caught.value).startswith(f"operator 'p': function {reference}: ")


def test_a_module_that_exits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exiting_alerts.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RefusedError, match="importing exiting_alerts raised SystemExit: 3"):
        load_function("p", "exiting_alerts:A")


def test_a_module_that_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_alerts.py").write_text("import nowhere_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    what = "importing broken_alerts raised ModuleNotFoundError: No module named 'nowhere_at_all'"
    with pytest.raises(RefusedError, match=what):
        load_function("p", "broken_alerts:A")
