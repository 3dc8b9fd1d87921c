"""Metrics of operators that only some of them have."""

from idlestate.metrics import names

OF_BUDGETS = {names.BUDGET_KEYS, names.BUDGET_BYTES, names.BUDGET_FULL, names.FORECAST}
"""They need a budget, or days of history."""
OF_SIDECARS = {*names.DURATIONS, names.COMPACTED} - {names.BATCH_DURATION}
OF_DRIVERS = {names.BATCH_DURATION}
