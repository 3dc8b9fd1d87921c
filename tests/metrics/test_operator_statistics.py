"""Figures are snapshots."""

from dataclasses import FrozenInstanceError

import pytest

from idlestate.metrics.operator_statistics import OperatorStatistics, Outlook
from idlestate.retention.budget import Budget


def test_a_snapshot_does_not_move_with_the_dicts_it_was_made_from() -> None:
    expired = {"idle": 3}
    figures = OperatorStatistics(operator="clicks", keys_expired=expired)
    expired["idle"] = 4
    assert figures.keys_expired == {"idle": 3}
    with pytest.raises(TypeError):
        figures.keys_expired["idle"] = 5  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        figures.returning_keys = 1  # type: ignore[misc]


def test_totals_sum_over_reasons() -> None:
    figures = OperatorStatistics(
        operator="clicks",
        rejected_rows={"null_time": 1, "malformed": 2},
        keys_expired={"idle": 3, "ttl": 4},
    )
    assert figures.rejected_total == 3
    assert figures.expired_total == 7
    assert OperatorStatistics(operator="clicks").expired_total == 0


def test_a_reached_budget_is_full_whatever_was_forecast() -> None:
    figures = OperatorStatistics(
        operator="clicks",
        live_keys=10,
        state_bytes=99,
        budget=Budget(keys=10, bytes=100),
        outlook=Outlook(keys_full_s=7.5, bytes_full_s=7.5),
    )
    assert figures.full_s == {"keys": 0.0, "bytes": 7.5}
    assert OperatorStatistics(operator="clicks", live_keys=10).full_s == {}


def test_equal_figures_are_equal() -> None:
    one = OperatorStatistics(operator="clicks", keys_expired={"idle": 3})
    assert one == OperatorStatistics(operator="clicks", keys_expired={"idle": 3})
    assert one != OperatorStatistics(operator="clicks", keys_expired={"idle": 4})
