"""Metrics of a user's own session: one call shows its operators and all other stateful queries."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import Policy, retain, serve_metrics
from idlestate.backends.files.folder import Folder
from idlestate.config.problems import ConfigError
from idlestate.errors import RefusedError
from idlestate.metrics import families, scrape_cache, sidecar_metrics, spark_metrics
from idlestate.metrics.history import History, HistoryFile
from idlestate.pipeline.serve_metrics import ServedMetrics
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests.metrics.some_operators import OF_BUDGETS, OF_SIDECARS, OF_TWO_INPUTS
from tests.pipeline.streams import Feed, run, shards
from tests.service.scrape import scrape, text_of
from tests.sidecar.sidecar_process import wait_for

UID = "users"
SCHEMA = pa.schema([("user", pa.string()), ("event_time", pa.timestamp("us", "UTC"))])
DAY_US = 1_700_000_000_000_000
INPUT = families.INPUT_ROWS.name
ALWAYS = {*families.OF_OPERATOR, *spark_metrics.OF_SPARK, families.BUILD_INFO}
ALWAYS -= OF_BUDGETS | OF_SIDECARS | OF_TWO_INPUTS


def rows(first: int, count: int, at_s: int = 0) -> list[dict[str, Any]]:
    return [
        {"user": f"user-{number}", "event_time": DAY_US + at_s * 1_000_000}
        for number in range(first, first + count)
    ]


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "input", SCHEMA)


@pytest.fixture
def served(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedMetrics]:
    monkeypatch.setattr(scrape_cache, "CACHE_S", 0.0)
    with serve_metrics(spark, 0) as served:
        yield served


def retained(spark: SparkSession, feed: Feed, uid: str = UID, **more: Any) -> Any:
    return retain(
        feed.stream(spark),
        uid=uid,
        key="user",
        event_time="event_time",
        delay="0s",
        aggregates={"n": "count"},
        policy=Policy(ttl="1h"),
        **more,
    )


def test_a_session_shows_its_operators_and_other_stateful_queries(
    spark: SparkSession, feed: Feed, served: ServedMetrics, tmp_path: Path
) -> None:
    feed.add(rows(0, 10))
    run(retained(spark, feed), tmp_path / "ours")
    counts = feed.stream(spark).groupBy("user").agg(F.count("*").alias("n"))
    writer = counts.writeStream.outputMode("update").queryName("counts").format("noop")
    writer = writer.option("checkpointLocation", str(tmp_path / "theirs"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert served.url is not None
    url = served.url
    wait_for(lambda: scrape(url).get(spark_metrics.STATE_ROWS.name))
    found = scrape(url)
    assert found[families.LIVE_KEYS.name] == found[families.INPUT_ROWS.name] == 10
    assert found[families.RETENTION_TTL.name] == 3600
    assert found[families.STATE_BYTES.name] == sum(
        each.current.bytes for each in shards(spark, tmp_path / "ours", UID)
    )
    assert found[families.BATCH_DURATION.name + "_count"] >= 1
    history = HistoryFile(Folder(str(tmp_path / "ours")), f"idlestate/{UID}/history.npy")
    assert [each.live_keys for each in History.load(history, DAY_US).sizes()] == [10]
    served = {family.name for family in text_string_to_metric_families(text_of(url))}
    assert {name.name.removesuffix("_total") for name in ALWAYS} <= served
    # Only Spark's own: shards of ours would be rows too.
    own = [
        line for line in text_of(url).splitlines() if line.startswith("idlestate_spark_state_rows{")
    ]
    assert own == [
        'idlestate_spark_state_rows{query="counts",state_operator="0:stateStoreSave"} 10'
    ]


def test_a_sidecar_that_the_driver_started_needs_no_port(
    spark: SparkSession, feed: Feed, served: ServedMetrics, tmp_path: Path
) -> None:
    feed.add(rows(0, 10))
    try:
        run(retained(spark, feed, backend="heap"), tmp_path / "c")
        assert served.url is not None
        url = served.url
        wait_for(lambda: scrape(url).get(f"{families.BATCH_DURATION.name}_count"))
        wait_for(lambda: scrape(url).get(families.LIVE_KEYS.name) == 10)
        found = scrape(url)
        assert found[families.INPUT_ROWS.name] == 10
        assert found[families.EXPIRY_LAG.name] == 0
        assert found[f"{families.EXCHANGE_DURATION.name}_count"] >= 1
        assert found[sidecar_metrics.WORKERS.name] == 1
        assert found[sidecar_metrics.COMMITTED_BATCH.name] >= 0
    finally:
        stop_private_sidecars()


def test_counters_go_on_where_the_checkpoint_stands(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(rows(0, 10))
    run(retained(spark, feed), tmp_path / "c")
    feed.add(rows(5, 10))
    registry = CollectorRegistry()
    seen: list[float | None] = []

    def look(frame: DataFrame, _: int) -> None:
        frame.toArrow()
        seen.append(registry.get_sample_value(INPUT, {"operator": UID}))

    with serve_metrics(spark, registry=registry) as served:
        assert served.url is None
        changes = retained(spark, feed)
        writer = changes.writeStream.foreachBatch(look)
        query = writer.option("checkpointLocation", str(tmp_path / "c")).start()
        try:
            query.processAllAvailable()
            wait_for(lambda: registry.get_sample_value(INPUT, {"operator": UID}) == 20)
        finally:
            query.stop()
    assert set(seen) <= {None, 10.0, 20.0}
    assert b"idlestate" not in generate_latest(registry)


def test_an_operator_has_the_budget_that_a_file_gives_it(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    config = tmp_path / "shop.yaml"
    config.write_text(
        "version: 1\n"
        "policies: {hours: {ttl: 1h, budget: {keys: 5}}}\n"
        f"selectors: [{{operator: {UID}, policy: hours}}]\n"
    )
    feed.add(rows(0, 10))
    registry = CollectorRegistry()
    keys, full = families.BUDGET_KEYS.name, families.BUDGET_FULL.name
    with serve_metrics(spark, registry=registry, config=config):
        run(retained(spark, feed), tmp_path / "c")
        wait_for(lambda: registry.get_sample_value(keys, {"operator": UID}))
        assert registry.get_sample_value(keys, {"operator": UID}) == 5
        assert registry.get_sample_value(full, {"operator": UID, "budget": "keys"}) == 0


def test_a_file_that_cannot_be_used_is_refused_before_anything_is_served(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = tmp_path / "shop.yaml"
    config.write_text("version: 1\npolicies: {hours: {ttl: 1h, budget: {keys: many}}}\n")
    with pytest.raises(ConfigError, match=r"budget\.keys"):
        serve_metrics(spark, 0, config=config)


def test_browsers_get_a_status_page_of_the_session(
    spark: SparkSession, feed: Feed, served: ServedMetrics, tmp_path: Path
) -> None:
    assert served.url is not None
    start = served.url.removesuffix("metrics")
    page = Request(f"{start}operators/{UID}", headers={"Accept": "text/html"})
    feed.add(rows(0, 10))
    run(retained(spark, feed), tmp_path / "ours")

    def shown() -> bool:
        try:
            with urlopen(page) as reply:
                text = reply.read().decode()
        except HTTPError:  # until the first batch reports
            return False
        return f"<h1>{UID}</h1>" in text and "<dt>Keys</dt><dd>10</dd>" in text

    assert wait_for(shown)


def test_it_listens_no_more_when_it_was_stopped(spark: SparkSession) -> None:
    with serve_metrics(spark, 0):
        pass
    assert not any(each.name == "idlestate-progress" for each in threading.enumerate())


def test_a_port_or_a_registry_is_needed(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="needs a port or a registry"):
        serve_metrics(spark)


def test_a_port_that_is_taken_is_refused(spark: SparkSession, served: ServedMetrics) -> None:
    assert served.url is not None
    port = int(served.url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(RefusedError, match="another program listens there"):
        serve_metrics(spark, port)
    assert sum(each.name == "idlestate-progress" for each in threading.enumerate()) == 1
