"""The expiry lag of a sidecar's operators, as a scrape tells it."""

from typing import Any

from idlestate.sidecar.server.operator_snapshot import OperatorSnapshot


def lag_ms(world: Any, snapshot: OperatorSnapshot) -> int:
    """The longest lag of an operator, by the clock of a `World` or `Sidecar`."""
    now_ms = world.clock.now_ms()
    lags_ms = [each.expiry_lag_ms(now_ms) for each in snapshot.at(now_ms)]
    return max(lag_ms for lag_ms in lags_ms if lag_ms is not None)
