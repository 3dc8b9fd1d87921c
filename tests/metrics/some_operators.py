"""Metrics of operators that only some of them have."""

from idlestate.metrics import names

OF_TWO_INPUTS = {names.ROWS_BY_INPUT, names.LATE_BY_INPUT, names.REJECTED_BY_INPUT}
OF_BUDGETS = {names.BUDGET_KEYS, names.BUDGET_BYTES, names.BUDGET_FULL, names.FORECAST}
"""They need a budget, or days of history."""
OF_SIDECARS = {*names.DURATIONS, names.COMPACTED} - {names.BATCH_DURATION}
OF_DRIVERS = {names.BATCH_DURATION}
