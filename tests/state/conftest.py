"""What all backends promise holds on runs with lists and maps in rows, and in second tables."""

import pytest

from idlestate.state.runs import items_table

BOTH_WAYS = {
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


@pytest.fixture(autouse=True)
def cell_bytes(request, monkeypatch):
    """What a cell of a list or map has at most: a test may change it."""
    monkeypatch.setattr(
        items_table, "CELL_BYTES", getattr(request, "param", items_table.CELL_BYTES)
    )


def pytest_generate_tests(metafunc):
    if metafunc.module.__name__.rpartition(".")[2] in BOTH_WAYS:
        sizes = [items_table.CELL_BYTES, 0]
        metafunc.parametrize("cell_bytes", sizes, indirect=True, ids=["rows", "second_tables"])


def pytest_collection_modifyitems(items):
    """Leave out what has no second table and would be the same twice."""
    items[:] = [item for item in items if not _is_a_repeat(item)]


def _is_a_repeat(item):
    spec = getattr(item, "callspec", None)
    again = spec is not None and spec.params.get("cell_bytes") == 0
    return again and (
        item.originalname in IN_ROWS
        or any(value in OTHERS for value in spec.params.values() if isinstance(value, str))
    )
