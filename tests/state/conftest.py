"""What all backends promise holds on runs with lists and maps in rows, and in second tables."""

import pytest

from idlestate.state.runs import runs_items
from tests.state.batch_borders import BatchBorders

BOTH_WAYS = {
    "test_declared_types",
    "test_float_keys",
    "test_golden_edge_cases",
    "test_golden_state",
    "test_golden_variations",
    "test_keyed_batches",
    "test_reclaim",
    "test_schema_changes",
    "test_snapshots",
}
"""Modules whose tests run with every list and map that is written back in the second table too."""

OTHERS = {"heap", "hashmap", "rocksdb", "recorded", "value", "reducing", "aggregating"}
"""Backends and kinds of state that have no second table."""

IN_ROWS = {"test_golden_state"}
"""Tests by processing time: by event time the same traces go through second tables."""

BORDERED = {
    "test_accumulators": 5,
    "test_declared_types": 2,
    "test_float_keys": 10,
    "test_golden_edge_cases": 5,
    "test_golden_idle_retention": 0.4,
    "test_golden_timers": 0.5,
    "test_heap_timers": 2,
    "test_idle_batches": 2,
    "test_keyed_batches": 6,
    "test_misuse": 5,
    "test_recorded_corners": 5,
    "test_schema_changes": 3,
    "test_snapshots": 3,
    "test_swept_records": 5,
}
"""Modules whose tests on runs get borders of batches between their calls, and how often."""

MORE_IN_LONG = 4
"""How many times as often in the long form."""

LONG = {
    "test_golden_state_in_event_time": ["rows-runs"],
    "test_golden_incremental_cleanup": ["rows-runs"],
    "test_golden_variations_are_the_same_on_all_backends": ["rows-dicts", "second_tables-columns"],
    "test_golden_edge_cases": ["rows-event-runs", "second_tables-processing-runs"],
}
"""Tests of rows and second tables, and the combinations of theirs in which no value is new."""


@pytest.fixture(autouse=True)
def cell_bytes(request, monkeypatch):
    """What a cell of a list or map has at most: a test may change it."""
    monkeypatch.setattr(runs_items, "CELL_BYTES", getattr(request, "param", runs_items.CELL_BYTES))


@pytest.fixture(autouse=True)
def batch_borders(request, monkeypatch):
    """Borders of batches between any two calls on runs; None in modules without them."""
    often = BORDERED.get(request.module.__name__.rpartition(".")[2])
    if often is None:
        return None
    if request.node.get_closest_marker("long"):
        often *= MORE_IN_LONG
    borders = BatchBorders(request.node.name, often=often)
    borders.set_between_calls(monkeypatch)
    return borders


def pytest_generate_tests(metafunc):
    if metafunc.module.__name__.rpartition(".")[2] in BOTH_WAYS:
        sizes = [runs_items.CELL_BYTES, 0]
        metafunc.parametrize("cell_bytes", sizes, indirect=True, ids=["rows", "second_tables"])


def pytest_collection_modifyitems(items):
    """Leave out what has no second table and would be the same twice; what repeats the other
    combinations of rows, second tables, times and forms is long."""
    items[:] = [item for item in items if not _is_a_repeat(item)]
    for item in items:
        spec = getattr(item, "callspec", None)
        if spec is not None and any(part in spec.id for part in LONG.get(item.originalname, ())):
            item.add_marker(pytest.mark.long)


def _is_a_repeat(item):
    spec = getattr(item, "callspec", None)
    again = spec is not None and spec.params.get("cell_bytes") == 0
    return again and (
        item.originalname in IN_ROWS
        or any(value in OTHERS for value in spec.params.values() if isinstance(value, str))
    )
