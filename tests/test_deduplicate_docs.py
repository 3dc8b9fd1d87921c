"""The example of docs/deduplicate.md runs and does what the page says."""

import json

import pyarrow.dataset as ds
import pytest

from tests.docs_pages import blocks
from tests.pipeline.conftest import spark, start_in  # noqa: F401 - fixtures

BLOCKS = blocks("docs/deduplicate.md")
# The same order again within its day, and after it.
ORDERS = [
    ("a", "2025-03-03T10:00:00Z", "new"),
    ("b", "2025-03-03T11:00:00Z", "new"),
    ("a", "2025-03-04T09:59:59Z", "again"),
    ("a", "2025-03-04T10:00:00Z", "a day later"),
]


@pytest.mark.long
@pytest.mark.spark
def test_example_runs(tmp_path, start_in):  # noqa: F811 - the fixture, not the import
    ((language, program),) = BLOCKS
    assert language == "python"
    (tmp_path / "orders").mkdir()
    rows = (dict(zip(("order_id", "event_time", "state"), each, strict=True)) for each in ORDERS)
    (tmp_path / "orders" / "orders.jsonl").write_text("\n".join(map(json.dumps, rows)))
    start_in(tmp_path)
    exec(program, {"__name__": "__main__"})
    files = list((tmp_path / "once").glob("*.parquet"))
    found = ds.dataset(files).to_table().to_pylist()
    assert sorted((row["order_id"], row["state"]) for row in found) == [
        ("a", "a day later"),
        ("a", "new"),
        ("b", "new"),
    ]
