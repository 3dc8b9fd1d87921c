"""The examples of docs/two-steps.md run, and both ways give the same."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from tests.docs_pages import blocks
from tests.pipeline.conftest import spark  # noqa: F401 - a fixture
from tests.pipeline.streams import Feed, Sink, run
from tests.pipeline.test_second_step import CLICKS

BLOCKS = blocks("docs/two-steps.md")


def clicks(feed):
    """Clicks of two days in order, in two batches."""
    chance = random.Random(7)
    at = [datetime(2025, 3, 3, tzinfo=UTC)]
    for _ in range(90):
        at.append(at[-1] + timedelta(minutes=chance.choice([5, 10, 60])))
    rows = [{"id": chance.choice("ab"), "event_time": each} for each in at]
    for begin in range(0, 90, 45):
        feed.add(rows[begin : begin + 45])


def newest(rows):
    """Of each life the largest counts, whether it has ended or not."""
    found = {}
    for row in rows:
        life = row["id"], row["created_at"]
        found[life] = max(found.get(life, (0, 0)), (row["visits"], row["most"]))
    return found


@pytest.mark.spark
@pytest.mark.long
def test_one_query_and_two_give_the_same(spark, tmp_path):  # noqa: F811
    feed = Feed(tmp_path / "clicks", CLICKS, 1)
    clicks(feed)
    (_, one), (_, two) = BLOCKS
    two = two.replace('"job/', f'"{tmp_path}/job/')
    names = {"spark": spark, "clicks": feed.stream(spark)}
    exec(one, names)
    together = newest(run(names["habits"], tmp_path / "checkpoint", Sink()).table.to_pylist())
    names = {"spark": spark, "clicks": feed.stream(spark)}
    exec(two, names)
    found = spark.read.parquet(str(tmp_path / "job/habits")).toArrow().to_pylist()
    apart = newest(found)
    assert apart == together
    assert sum(visits for visits, _ in apart.values()) > 20
