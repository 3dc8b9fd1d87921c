"""Metrics of operators that only some of them have."""

from idlestate.metrics import families

OF_TWO_INPUTS = {families.ROWS_BY_INPUT, families.LATE_BY_INPUT, families.REJECTED_BY_INPUT}
OF_BUDGETS = {families.BUDGET_KEYS, families.BUDGET_BYTES, families.BUDGET_FULL, families.FORECAST}
"""They need a budget, or days of history."""
OF_SIDECARS = {*families.DURATIONS, families.COMPACTED} - {families.BATCH_DURATION}
OF_DRIVERS = {families.BATCH_DURATION}
