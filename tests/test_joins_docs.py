"""The example of docs/joins.md runs and does what the page says."""

from datetime import UTC, datetime

import pytest

from tests.docs_pages import blocks
from tests.pipeline.conftest import spark  # noqa: F401 - a fixture

BLOCKS = blocks("docs/joins.md")


def day(number):
    return datetime(2025, 3, number, tzinfo=UTC)


@pytest.mark.spark
def test_example_runs(spark):  # noqa: F811 - the fixture, not the import
    ((language, program),) = BLOCKS
    assert language == "python"
    orders = [("pen", day(2), 1), ("pen", day(7), 2), ("pen", day(8), 3), ("ink", day(8), 4)]
    prices = [("pen", day(1), 10), ("pen", day(3), 12), ("ink", day(1), 50)]
    names = {
        "orders": spark.createDataFrame(orders, "item string, ordered_at timestamp, id int"),
        "prices": spark.createDataFrame(prices, "item string, valid_from timestamp, price int"),
    }
    exec(program, names)
    found = [(row.id, row.price) for row in names["priced"].orderBy("id").collect()]
    assert found == [(1, 10), (2, 12), (3, 12), (4, None)]
