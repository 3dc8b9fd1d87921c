"""Pipelines whose query is a join: their rows are those of `sql`, and of a run of the file."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import DataFrame, SparkSession

from idlestate import sql
from idlestate.config.loading import parse
from idlestate.pipeline.input_files import Events
from idlestate.retention.policy import Policy
from idlestate.service.cli import main
from idlestate.service.pipeline_changelog import pipeline_changelog
from tests.service.command_line import CommandLine, assert_good, event
from tests.service.rows import rows

FILE = """
version: 1
policies: {{long: {{ttl: 20m}}, short: {{ttl: 5m}}}}
pipelines:
  p:
    event_time: t
    delay: 1m
    sources:
      orders: {{path: in/orders, format: json}}
      payments: {{path: in/payments, format: json, policy: short, idle_after: 3m}}
    query: {query}
    policy: long
    sinks: {{results: out/results, rejects: out/rejects}}
    checkpoint: out/checkpoint
"""
SELECT = "SELECT o.k, o.id, p.id AS paid FROM orders o"
ON = "payments p ON o.k = p.order_id"
INTERVAL = "AND p.t BETWEEN o.t - INTERVAL 5 MINUTES AND o.t + INTERVAL 15 MINUTES"
START = datetime(2025, 3, 3, tzinfo=UTC)


def shown(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=repr)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "policies"),
    [
        pytest.param(
            f"{SELECT} LEFT JOIN {ON}",
            (Policy(ttl="20m"), Policy(ttl="5m")),
            marks=pytest.mark.long,
        ),
        (
            f"{SELECT} JOIN {ON} WHERE o.id <> 4".replace(
                "SELECT", "SELECT /*+ STATE_TTL('p'='9m'), RETENTION('orders'='short') */"
            ),
            (Policy(ttl="5m"), Policy(ttl="9m")),
        ),
        pytest.param(
            f"{SELECT} LEFT JOIN {ON} {INTERVAL}",
            (Policy(ttl="20m"), Policy(ttl="5m")),
            marks=pytest.mark.long,
        ),
        (
            f"{SELECT} LEFT JOIN payments FOR SYSTEM_TIME AS OF o.t AS p ON o.k = p.order_id",
            (Policy(ttl="5m"), None),
        ),
    ],
)
def test_a_query_gives_the_rows_of_the_python_form(
    spark: SparkSession, query: str, policies: tuple[Policy, Policy | None]
) -> None:
    config = parse(FILE.format(query=query).encode())
    frames = []
    for name, key, step in (("orders", "k", 7), ("payments", "order_id", 11)):
        made = [(START + timedelta(minutes=at * step % 61), f"k{at % step}", at) for at in range(9)]
        made.append((None, "k", 1))
        frame = spark.createDataFrame(made, f"t timestamp, {key} string, id int")
        frame.createOrReplaceTempView(name)
        frames.append(frame)
    policy, right_policy = policies
    assert (config.policy_for("p"), config.right_policy_for("p")) == policies
    found = pipeline_changelog(
        *(Events(frame, None) for frame in frames),
        "p",
        config.pipelines["p"],
        config.queries["p"],
        policy,
        right_policy,
        None,
        rejects=True,
    )
    shared: dict[str, Any] = {"uid": "p", "event_time": "t", "delay": "1m", "rejects": True}
    without_hint = re.sub(r"/\*.*\*/", "", query)
    of_right = {} if right_policy is None else {"right_policy": right_policy}
    expected = sql(spark, without_hint, policy=policy, **of_right, **shared)
    assert found.columns == expected.columns
    assert shown(found) == shown(expected)
    assert {row["input"] for row in shown(found)} - {None} in (
        *({"left", "right"}, {"probes", "versions"}),
    )
    assert any(row["paid"] is not None for row in shown(found))


@pytest.mark.long
@pytest.mark.spark
def test_a_file_whose_query_is_a_join(
    here: CommandLine, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "idlestate.service.spark_session.start_spark", lambda partitions, log: spark
    )
    payments = here.folder / "payments"
    payments.mkdir()
    (payments / "0.json").write_text(
        '{"paid_at": "2025-03-03T10:01:00Z", "user": "ann", "sum": 5}\n'
        '{"paid_at": "2025-03-03T10:40:00Z", "user": "ann", "sum": 7}\n{\n'
    )
    schema = {"paid_at": "timestamp", "user": "string", "sum": "bigint"}
    of_payments = {"path": str(payments), "format": "json", "schema": schema}
    here.write(
        **dict.fromkeys(("source", "event_time", "key", "aggregates")),
        sources={
            "orders": {**here.source(files_per_batch=None), "event_time": "event_time"},
            "payments": {**of_payments, "event_time": "paid_at"},
        },
        query="""
            SELECT /*+ STATE_TTL('o'='10m') */ o.user, o.amount, p.sum AS paid
            FROM orders AS o LEFT JOIN payments AS p ON o.user = p.user WHERE o.amount > 1""",
        sinks={name: str(here.out / name) for name in ("results", "rejects")},
    )
    here.add(
        "0.json",
        [
            event("2025-03-03T10:00:00Z", "ann", 2),
            event("2025-03-03T10:00:00Z", "ann", 1),
            event("2025-03-03T10:01:00Z", "bob", 4),
            event("2025-03-03T11:00:00Z", "cid", 8),
            "[1, 2",
        ],
    )
    assert_good(here.run())
    found = {(row["user"], row["amount"], row["paid"]) for row in rows(here.out / "results")}
    assert found >= {("ann", 2, 5), ("bob", 4, None)}
    assert ("ann", 2, 7) not in found  # an order is kept for ten minutes
    rejected = [
        (row["input"], row["reason"], json.loads(row["rejected"])["_corrupt_record"])
        for row in rows(here.out / "rejects")
    ]
    assert sorted(rejected) == [("left", "malformed", "[1, 2"), ("right", "malformed", "{")]
    line = ["plan", str(here.config), "--against", str(here.checkpoint), "--operator", "clicks"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    assert "clicks: ttl 10m -> ttl 10m\n  right rows: idle 30m to 45m" in done.output
