"""Pipelines of other kinds than `retain` and `deduplicate`, in fields and as a query."""

import inspect
import json
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from idlestate import co_process, join, join_asof, over, process
from idlestate.config.loading import parse
from idlestate.pipeline.input_files import Events
from idlestate.retention.policy import Policy
from idlestate.service import pipeline_changelog as under_test
from idlestate.service.cli import main
from idlestate.sidecar.protocol.connection import Address
from tests.config.test_refusals import PIPELINE
from tests.service.alerts import Both, Second
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
                "    output: {u: string}\n    columns: [v]\n    renamed: {count: n}\n"
                "    on_error: reject"
            ),
            {
                "output": "`u` string",
                "columns": ("v",),
                "renamed": {"count": "n"},
                "on_error": "reject",
            },
        ),
        (
            co_process,
            (
                "kind: co_process\n    function: tests.service.alerts:Both\n"
                "    output: {u: string}\n    columns: [v]\n    order: [seq]\n    in_order: false\n"
                "    right: {source: {path: v, format: json}, event_time: at, delay: 1h,\n"
                "      idle_after: 1m, columns: [w]}"
            ),
            {
                "output": "`u` string",
                "key": ["user"],
                "columns": ("v",),
                "right_columns": ("w",),
                "right_event_time": "at",
                "right_delay": "3600000ms",
                "idle_after": {"right": "60000ms"},
                "order": ("seq",),
                "in_order": False,
                "on_error": "stop",
            },
        ),
        (
            join_asof,
            (
                "kind: join_asof\n    how: left\n    order: [seq]\n    versions: {source:\n"
                "      {path: v, format: json}, event_time: at, delay: 1h, idle_after: 1m, "
                "columns: [x]}"
            ),
            {
                "how": "left",
                "on": ["user"],
                "order": ("seq",),
                "columns": ("x",),
                "event_time": "event_time",
                "version_event_time": "at",
                "version_delay": "3600000ms",
                "idle_after": {"versions": "60000ms"},
                "rejects": True,
            },
        ),
        (
            join,
            (
                'kind: join\n    how: semi\n    between: ["-1m", 1h]\n    right:\n'
                "      {source: {path: v, format: json}, event_time: at, delay: 1h, policy: day}\n"
                "    idle_after: 0s\n    backend: heap"
            ),
            {
                "how": "semi",
                "backend": "heap",
                "on": ["user"],
                "between": (timedelta(minutes=-1), timedelta(hours=1)),
                "event_time": "event_time",
                "right_event_time": "at",
                "right_delay": "3600000ms",
                "idle_after": {"left": "0ms"},
                "right_policy": Policy(ttl="1d"),
                "rejects": False,
            },
        ),
    ],
)
def test_an_operator_gets_the_fields_of_its_pipeline(
    operator: Any, fields: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PIPELINE.replace(AGGREGATES, f"    {fields}\n")
    text = text.replace("policies: {", "policies: {day: {ttl: 1d}, ")
    if operator is not over:
        text = text.replace("{results: out/results}", "{results: out/results, rejects: out/bad}")
    config = parse(text.encode(), "f.yaml")
    frame: Any = object()
    events = Events(frame, "_bad")
    passed: dict[str, Any] = {}

    def bound(*inputs: Any, **arguments: Any) -> Any:
        passed.update(inspect.signature(operator).bind(*inputs, **arguments).arguments)
        return frame

    monkeypatch.setattr(under_test, operator.__name__, bound)
    policy = config.policy_for("p")
    pipeline = config.pipelines["p"]
    place = Address("unix:there")
    second = None if pipeline.second is None else events
    right_policy = config.right_policy_for("p")
    under_test.pipeline_changelog(
        events,
        second,
        "p",
        pipeline,
        None,
        policy,
        right_policy,
        place,
        rejects=operator is join_asof,
    )
    assert {name: passed[name] for name in expected} == expected
    assert (passed["uid"], passed["policy"]) == ("p", policy)
    assert passed["sidecar"] == place
    assert second is not None or passed["malformed"] == "_bad"
    if operator is co_process:
        assert isinstance(passed["function"], Both)
    if operator is process:
        assert isinstance(passed["function"], Second)


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


@pytest.mark.long
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


@pytest.mark.spark
@pytest.mark.long
def test_a_function_on_two_inputs(here: CommandLine, spark, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "idlestate.service.spark_session.start_spark", lambda partitions, log: spark
    )
    limits = here.folder / "limits"
    limits.mkdir()
    (limits / "0.json").write_text(
        '{"set_at": "2025-03-03T10:01:00Z", "user": "ann", "limit": 3}\n{\n'
    )
    schema = {"set_at": "timestamp", "user": "string", "limit": "bigint"}
    here.add("0.json", ROWS)
    here.write(
        aggregates=None,
        kind="co_process",
        function="tests.service.alerts:Both",
        output={"user": "string", "what": "string"},
        right={
            "source": {"path": str(limits), "format": "json", "schema": schema},
            "event_time": "set_at",
        },
        sinks={name: str(here.out / name) for name in ("results", "rejects")},
    )
    assert_good(here.run())
    found = sorted((row["user"], row["what"]) for row in rows(here.out / "results"))
    assert found == [("ann", "1 None"), ("ann", "2 None"), ("ann", "4 3"), ("bob", "8 None")]
    rejected = {(row["input"], row["reason"]) for row in rows(here.out / "rejects")}
    assert rejected == {("left", "malformed"), ("right", "malformed")}


@pytest.mark.long
@pytest.mark.spark
def test_a_join_over_two_runs(here: CommandLine):
    """A version is in another folder than probes, and is kept for the next run."""
    prices = here.folder / "prices"
    prices.mkdir()
    (prices / "0.json").write_text(
        '{"valid_from": "2025-03-03T10:00:00Z", "user": "ann", "price": 5}\n'
        '{"valid_from": "2025-03-03T10:01:00Z", "user": "ann", "price": 7}\n{\n'
    )
    schema = {"valid_from": "timestamp", "user": "string", "price": "bigint"}
    fields = {
        "aggregates": None,
        "kind": "join_asof",
        "how": "left",
        "versions": {
            "source": {"path": str(prices), "format": "json", "schema": schema},
            "event_time": "valid_from",
            "columns": ["price"],
            "idle_after": "0s",
        },
        "sinks": {name: str(here.out / name) for name in ("results", "rejects")},
    }
    here.write(**fields)
    here.add("0.json", ROWS)
    said = here.run()
    assert_good(said)
    assert said.summary()["rejected rows"] == "2 (2 malformed)"
    rejected = {(row["input"], row["reason"]) for row in rows(here.out / "rejects")}
    assert rejected == {("probes", "malformed"), ("versions", "malformed")}
    here.add("1.json", [event("2025-03-03T10:30:00Z", "ann", 16)])
    assert_good(here.run())
    found = {(row["user"], row["amount"], row["price"]) for row in rows(here.out / "results")}
    expected = {("ann", 1, 5), ("ann", 2, 7), ("ann", 4, 7), ("bob", 8, None), ("ann", 16, 7)}
    assert found == expected


@pytest.mark.long
@pytest.mark.spark
def test_pairs_over_two_runs(here: CommandLine, spark, monkeypatch: pytest.MonkeyPatch):
    """A row is kept for the next run, and is what `plan` and `check --against` find."""
    monkeypatch.setattr(
        "idlestate.service.spark_session.start_spark", lambda partitions, log: spark
    )
    payments = here.folder / "payments"
    payments.mkdir()
    (payments / "0.json").write_text(
        '{"paid_at": "2025-03-03T10:01:00Z", "user": "ann", "sum": 5}\n{\n'
        '{"paid_at": "2025-03-03T10:20:00Z", "user": "cid", "sum": 7}\n'
    )
    schema = {"paid_at": "timestamp", "user": "string", "sum": "bigint"}
    here.write(
        aggregates=None,
        kind="join",
        how="left",
        between=["-1m", "30m"],
        policy=None,
        right={
            "source": {"path": str(payments), "format": "json", "schema": schema},
            "event_time": "paid_at",
            "policy": "short",
        },
        sinks={name: str(here.out / name) for name in ("results", "rejects")},
    )
    here.add("0.json", ROWS)
    said = here.run()
    assert_good(said)
    assert "WITHOUT BOUND" not in said.text
    assert said.summary()["rejected rows"] == "2 (2 malformed)"
    here.add("1.json", [event("2025-03-03T10:21:00Z", "cid", 16)])
    assert_good(here.run())
    found = {(row["user"], row["amount"], row["sum"]) for row in rows(here.out / "results")}
    assert found == {("ann", 1, 5), ("ann", 2, 5), ("ann", 4, 5), ("cid", 16, 7)}
    rejects = rows(here.out / "rejects")
    assert sorted(row["input"] for row in rejects) == ["left", "right"]
    assert {json.loads(row["rejected"])["_corrupt_record"] for row in rejects} == {"{"}
    plan = ["plan", str(here.config), "--against", str(here.checkpoint), "--operator", "clicks"]
    for line, expected in (
        (plan, "clicks: no retention -> no retention\n  right rows: "),
        (plan, "\n  7 live keys"),
        (["check", *plan[1:4]], "clicks: a run can continue from the state in"),
        (["explain", plan[3], "--key", "cid"], "has 1 left row and 1 right row in state"),
    ):
        done = CliRunner().invoke(main, line)
        assert done.exit_code == 0, done.output
        assert expected in done.output
