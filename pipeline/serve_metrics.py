"""Metrics of a user's own job: one call exports all queries of its session."""

from contextlib import ExitStack
from pathlib import Path
from typing import Self

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from idlestate.config.loading import load_config
from idlestate.metrics.exporter import Exporter, RegistryBridge
from idlestate.metrics.exposition import MetricsServer
from idlestate.metrics.series_cap import MAX_SERIES
from idlestate.metrics.status_page import StatusPage, Subject
from idlestate.pipeline.session_metrics import SessionMetrics
from idlestate.pipeline.spark.argument_type import check_spark
from idlestate.retention.budget import no_budget
from idlestate.retention.setting_error import SettingError
from idlestate.timers.clock import SystemClock


class ServedMetrics:
    """Metrics that are being served; they end with the process or with `stop`.

    Attributes:
        url: where they are served; None if only a registry has them.
    """

    def __init__(self, url: str | None, ends: ExitStack) -> None:
        self.url = url
        self._ends = ends

    def stop(self) -> None:
        """Serve no more; a second call does nothing."""
        self._ends.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def serve_metrics(
    spark: SparkSession,
    port: int | None = None,
    *,
    address: str = "127.0.0.1",
    registry: CollectorRegistry | None = None,
    config: str | Path | None = None,
    max_series: int = MAX_SERIES,
) -> ServedMetrics:
    """Export the metrics of a session: its `retain` and `deduplicate` operators, and the state of
    every other stateful query, also of those that start later.

        serve_metrics(spark, 9108)

    Args:
        spark: the session (classic, not Spark Connect).
        port: serves `/metrics` and a status page at `/` on this port; 0 selects a free one.
        address: the address to listen on; the default answers this machine only.
        registry: adds the metrics to this registry of `prometheus_client`.
        config: a configuration file; each operator gets the budget of its pipeline or policy in
            this file. Default: no budgets.
        max_series: at most this many series of operators and queries are shown;
            `idlestate_overflowed_series_total` counts the others.

    Returns:
        The running export; use `stop` or a `with` block to end it before the process ends.

    Raises:
        RefusedError: this is not a session, or the address cannot be listened on.
        ConfigError: the file cannot be read or used.
        SettingError: there is neither a port nor a registry, or the registry already has these
            metrics.
    """
    check_spark(spark)
    if port is None and registry is None:
        raise SettingError("serve_metrics needs a port or a registry; pass port=9108, for example")
    budget_for = no_budget if config is None else load_config(config).budget_for
    clock = SystemClock()
    exporter = Exporter(clock, max_series=max_series)
    metrics = SessionMetrics(exporter, budget_for)
    url = None
    with ExitStack() as ends:
        if registry is not None:
            bridge = RegistryBridge(registry, exporter)
            ends.callback(registry.unregister, bridge)
        if port is not None:
            sizes = metrics.driver.outlooks.sizes
            job = Subject(name="job", now_ms=clock.now_ms, figures=metrics.at, curve=sizes)
            server = MetricsServer(exporter, port, address, page=StatusPage(job))
            url = ends.enter_context(server).url
        metrics.attach(spark)
        ends.callback(metrics.close)
        return ServedMetrics(url, ends.pop_all())
