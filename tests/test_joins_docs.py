"""The examples of docs/joins.md run and do what the page says."""

from datetime import UTC, datetime

import pytest

from idlestate.config.loading import parse
from tests.docs_pages import blocks
from tests.pipeline.conftest import spark  # noqa: F401 - a fixture

BLOCKS = blocks("docs/joins.md")


def day(number):
    return datetime(2025, 3, number, tzinfo=UTC)


@pytest.mark.spark
def test_orders_find_the_price_of_their_time(spark):  # noqa: F811 - the fixture, not the import
    assert [language for language, _ in BLOCKS] == ["python"] * 3 + ["yaml"] * 2
    program = BLOCKS[0].text
    orders = [("pen", day(2), 1), ("pen", day(7), 2), ("pen", day(8), 3), ("ink", day(8), 4)]
    prices = [("pen", day(1), 10), ("pen", day(3), 12), ("ink", day(1), 50)]
    names = {
        "orders": spark.createDataFrame(orders, "item string, ordered_at timestamp, id int"),
        "prices": spark.createDataFrame(prices, "item string, valid_from timestamp, price int"),
    }
    exec(program, names)
    found = [(row.id, row.price) for row in names["priced"].orderBy("id").collect()]
    assert found == [(1, 10), (2, 12), (3, 12), (4, None)]


@pytest.mark.spark
def test_orders_find_their_payments(spark):  # noqa: F811 - the fixture, not the import
    orders = [(1, day(2)), (2, day(2)), (3, day(2)), (None, day(2))]
    payments = [(1, day(3), 10), (2, day(4), 20), (None, day(2), 30)]
    names = {
        "orders": spark.createDataFrame(orders, "order_id int, ordered_at timestamp"),
        "payments": spark.createDataFrame(payments, "order_id int, paid_at timestamp, sum int"),
    }
    exec(BLOCKS[1].text, names)
    found = {(row.order_id, row.sum) for row in names["paid"].collect()}
    assert found == {(1, 10), (2, None), (3, None), (None, None)}
    exec(BLOCKS[2].text, names)
    found = {(row.order_id, row.sum) for row in names["matched"].collect()}
    assert found == {(1, 10), (2, 20), (3, None), (None, None), (None, 30)}


def test_files_are_valid():
    config = parse(BLOCKS[3].text.encode(), "f.yaml")
    assert not config.warnings
    right_policy = config.right_policy_for("matched-orders")
    assert right_policy is not None
    assert right_policy.ttl_ms == 3_600_000
    pipeline = parse(BLOCKS[4].text.encode(), "f.yaml").pipelines["priced-orders"]
    assert (pipeline.kind, pipeline.how) == ("join_asof", "left")
