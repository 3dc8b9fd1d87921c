"""The status page of `idlestate run`."""

from idlestate.metrics.driver_metrics import DriverMetrics
from idlestate.metrics.growth import GrowthLog
from idlestate.metrics.growth_curve import Size
from idlestate.metrics.status_page import StatusPage, Subject
from idlestate.timers.clock import Clock


def run_page(metrics: DriverMetrics, growth: GrowthLog, clock: Clock) -> StatusPage:
    """The page.

    Args:
        metrics: the figures of the pipeline.
        growth: its growth log.
        clock: the driver's.
    """
    return StatusPage(
        Subject(
            name="run",
            now_ms=clock.now_ms,
            figures=metrics.at,
            curve=lambda _: [Size(each.time_ms, each.live_keys) for each in growth.points()],
        )
    )
