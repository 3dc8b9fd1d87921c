"""The example of docs/over.md runs and does what the page says."""

from datetime import UTC, datetime

import pytest

from idlestate.config.loading import parse
from tests.docs_pages import blocks
from tests.pipeline.conftest import spark  # noqa: F401 - a fixture

BLOCKS = blocks("docs/over.md")
PAID = [("a", 3, 9, 5), ("a", 3, 8, 20), ("b", 3, 8, 7), ("a", 5, 9, 1)]


@pytest.mark.spark
def test_example_runs(spark):  # noqa: F811 - the fixture, not the import
    assert [language for language, _ in BLOCKS] == ["python", "python", "yaml"]
    rows = [
        (card, datetime(2025, 3, day, hour, tzinfo=UTC), paid) for card, day, hour, paid in PAID
    ]
    names = {"payments": spark.createDataFrame(rows, "card string, paid_at timestamp, amount int")}
    for _, program in BLOCKS[:2]:
        exec(program, names)
    found = names["running"].orderBy("card", "paid_at").collect()
    assert [(row.card, row.amount, row.spent, row.payments) for row in found] == [
        ("a", 20, 20, 1),
        ("a", 5, 25, 2),
        ("a", 1, 1, 1),
        ("b", 7, 7, 1),
    ]
    last = names["average"].orderBy("card", "paid_at").collect()
    assert [(row.amount, row.mean, row.largest) for row in last] == [
        (20, 20.0, 20),
        (5, 12.5, 20),
        (1, 1.0, 1),
        (7, 7.0, 7),
    ]


def test_file_is_valid():
    pipeline = parse(BLOCKS[2].text.encode(), "f.yaml").pipelines["last-ten-payments"]
    assert (pipeline.kind, pipeline.rows) == ("over", 10)
