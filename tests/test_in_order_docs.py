"""The example of docs/in-order.md runs and does what the page says."""

from datetime import UTC, datetime

import pytest

from tests.docs_pages import blocks
from tests.pipeline.conftest import spark  # noqa: F401 - a fixture

BLOCKS = blocks("docs/in-order.md")


@pytest.mark.spark
def test_example_runs(spark):  # noqa: F811 - the fixture, not the import
    ((language, program),) = BLOCKS
    assert language == "python"
    clicks = [("a", 30, "second"), ("a", 10, "first"), ("a", 50, "third"), ("b", 20, "only")]
    rows = [(user, datetime(2025, 3, 3, 12, at, tzinfo=UTC), page) for user, at, page in clicks]
    names = {
        "events": spark.createDataFrame(rows, "user string, event_time timestamp, page string")
    }
    exec(program, names)
    found = names["changes"].where("change = 'update'").orderBy("user").collect()
    assert [(row.user, row.clicks, row.last_page) for row in found] == [
        ("a", 3, "third"),
        ("b", 1, "only"),
    ]
