"""Pipelines of `kind: over` and `kind: process`, in fields and as a query."""

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from idlestate import over, process
from idlestate.config.loading import parse
from idlestate.errors import RefusedError
from idlestate.pipeline.function_class import load_function
from idlestate.pipeline.sources import Events
from idlestate.service import pipeline_changelog as under_test
from idlestate.sidecar.protocol.connection import Address
from tests.config.test_refusals import PIPELINE
from tests.service.alerts import Second
from tests.service.command_line import CommandLine, assert_good, event
from tests.service.rows import rows

AGGREGATES = "    aggregates: {n: count}\n"
ROWS = [
    event("2025-03-03T10:02:00Z", "ann", 4),
    event("2025-03-03T10:00:00Z", "ann", 1),
    event("2025-03-03T10:01:00Z", "ann", 2),
    event("2025-03-03T10:02:00Z", "bob", 8),
    "{",
]


@dataclass(frozen=True)
class _Frame:
    isStreaming: bool = True  # noqa: N815 - Spark's name


@pytest.mark.parametrize(
    ("operator", "fields", "expected"),
    [
        (over, "aggregates: {n: count}\n    kind: over", {"columns": {"n": "count"}}),
        (over, "aggregates: {n: count}\n    kind: over\n    rows: 3", {"rows": 3, "range": None}),
        (
            over,
            "aggregates: {n: count}\n    kind: over\n    range: 1h\n    order: [seq]",
            {"rows": None, "range": "3600000ms", "order": ("seq",), "key": ["user"]},
        ),
        (
            process,
            (
                "kind: process\n    function: tests.service.alerts:Second\n"
                "    output: {u: string}\n    columns: [v]\n    renamed: {count: n}"
            ),
            {"output": "`u` string", "columns": ("v",), "renamed": {"count": "n"}},
        ),
    ],
)
def test_an_operator_gets_the_fields_of_its_pipeline(
    operator: Any, fields: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = parse(PIPELINE.replace(AGGREGATES, f"    {fields}\n").encode(), "f.yaml")
    frame: Any = _Frame()
    passed: dict[str, Any] = {}

    def bound(*inputs: Any, **arguments: Any) -> Any:
        passed.update(inspect.signature(operator).bind(*inputs, **arguments).arguments)
        return frame

    monkeypatch.setattr(under_test, operator.__name__, bound)
    policy = config.policy_for("p")
    pipeline = config.pipelines["p"]
    place = Address("unix:there")
    under_test.pipeline_changelog(
        Events(frame, "_bad"), "p", pipeline, None, policy, place, rejects=False
    )
    assert {name: passed[name] for name in expected} == expected
    assert passed["sidecar"] == place
    assert (passed["uid"], passed["policy"], passed["malformed"]) == ("p", policy, "_bad")
    if operator is process:
        assert isinstance(passed["function"], Second)


@pytest.mark.parametrize(
    ("reference", "what"),
    [
        ("nowhere.alerts:A", "module nowhere is not found; install it, or add its folder to"),
        ("tests.nowhere:A", "module tests.nowhere is not found; install it"),
        ("tests.service.alerts:A", "A is not found; tests.service.alerts has Second, Limit"),
        ("tests.service.alerts:pa", "pa is not a class derived from KeyedProcessFunction"),
        ("tests.service.alerts:Limit", "Limit() raised TypeError: "),
    ],
)
def test_a_function_that_cannot_be_loaded(reference: str, what: str) -> None:
    with pytest.raises(RefusedError, match=re.escape(what)) as caught:
        load_function("p", reference)
    assert str(caught.value).startswith(f"operator 'p': function {reference}: ")


def test_a_module_that_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_alerts.py").write_text("import nowhere_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    what = "importing broken_alerts raised ModuleNotFoundError: No module named 'nowhere_at_all'"
    with pytest.raises(RefusedError, match=what):
        load_function("p", "broken_alerts:A")


@pytest.mark.spark
def test_over_as_a_query(here: CommandLine):
    here.add("0.json", ROWS)
    here.write(
        key=None,
        aggregates=None,
        sinks={"results": str(here.out / "results")},
        query="""
            SELECT *, sum(amount) OVER (PARTITION BY user ORDER BY event_time
                ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS total FROM source""",
    )
    said = here.run()
    assert_good(said)
    found = {(row["user"], row["amount"], row["total"]) for row in rows(here.out / "results")}
    assert found == {("ann", 1, 1), ("ann", 2, 3), ("ann", 4, 6), ("bob", 8, 8)}
    assert said.summary()["rejected rows"] == "1 (1 malformed)"


@pytest.mark.spark
def test_a_function(here: CommandLine):
    here.add("0.json", ROWS)
    here.add("1.json", [event("2025-03-03T12:00:00Z", "cid")])
    here.write(
        aggregates=None,
        kind="process",
        function="tests.service.alerts:Second",
        output={"user": "string", "amount": "bigint"},
        in_order=True,
        sinks={name: str(here.out / name) for name in ("results", "rejects")},
    )
    assert_good(here.run())
    found = sorted((row["user"], row["amount"]) for row in rows(here.out / "results"))
    assert found == [("ann", -3), ("ann", 2), ("bob", -1)]
    assert [row["reason"] for row in rows(here.out / "rejects")] == ["malformed"]
