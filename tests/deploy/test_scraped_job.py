"""A real Prometheus scrapes a user's own job: its operators, its sidecar, its other queries."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

from idlestate import serve_metrics
from idlestate.metrics import families, sidecar_metrics, spark_metrics
from idlestate.sidecar.client.private_sidecar import stop_private_sidecars
from tests.pipeline.conftest import spark  # noqa: F401 - a fixture
from tests.pipeline.streams import Feed, run
from tests.pipeline.test_serve_metrics import SCHEMA, retained, rows
from tests.prometheus_programs import asked, programs, scraping  # noqa: F401 - a fixture
from tests.sidecar.sidecar_process import wait_for

OWN, PRIVATE = "users", "visits"
KEYS = 10


@pytest.mark.spark
@pytest.mark.long
def test_prometheus_sees_an_own_job_and_its_private_sidecar(
    programs: Path,  # noqa: F811
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
) -> None:
    config = tmp_path / "budgets.yaml"
    config.write_text(
        "version: 1\npolicies: {all: {ttl: 1h, budget: {keys: 100}}}\n"
        'selectors: [{operator: "*", policy: all}]\n'
    )
    feed = Feed(tmp_path / "input", SCHEMA)
    feed.add(rows(0, KEYS))
    stop_private_sidecars()  # all of this process are exported, also those of other tests
    with serve_metrics(spark, 0, config=config) as served:
        assert served.url is not None
        target = urlsplit(served.url).netloc
        try:
            run(retained(spark, feed), tmp_path / "own")
            run(retained(spark, feed, uid=PRIVATE, backend="heap"), tmp_path / "private")
            counts = feed.stream(spark).groupBy("user").count().writeStream.outputMode("update")
            counts = counts.queryName("counts").format("noop")
            counts = counts.option("checkpointLocation", str(tmp_path / "counts"))
            counts.trigger(availableNow=True).start().awaitTermination()
            with scraping(programs, target, tmp_path) as address:

                def values(name: str) -> dict[str, float]:
                    """By operator or query."""
                    return {
                        next(
                            filter(None, map(each["metric"].get, ("operator", "query"))), ""
                        ): float(each["value"][1])
                        for each in asked(address, name)
                    }

                both = {OWN: KEYS, PRIVATE: KEYS}
                wait_for(lambda: values(families.LIVE_KEYS.name) == both)
                assert values(families.BUDGET_KEYS.name) == {OWN: 100, PRIVATE: 100}
                wait_for(lambda: values(spark_metrics.STATE_ROWS.name) == {"counts": KEYS})
                assert set(values(families.EXPIRY_LAG.name)) == {OWN, PRIVATE}
                assert set(values(f"{families.BATCH_DURATION.name}_count")) == {OWN, PRIVATE}
                assert set(values(f"{families.EXCHANGE_DURATION.name}_count")) == {PRIVATE}
                assert values(sidecar_metrics.WORKERS.name) == {"": 1}
                assert values("up") == {"": 1}
        finally:
            stop_private_sidecars()
