"""Accumulators of users on Spark: classes travel to tasks, and are found when state is read."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from idlestate import Accumulator, Policy, read_state, retain
from idlestate.pipeline.spark.task_errors import plain_message
from tests.pipeline.streams import TIMESTAMP, Feed, Sink, run
from tests.pipeline.values import ORIGIN

SCHEMA = pa.schema([("k", pa.string()), ("t", TIMESTAMP), ("x", pa.int64())])
LONG = Policy(idle_min="1h", idle_max="2h")


def product_class() -> type[Accumulator]:
    """A class that no task can import, as those of a script or notebook."""

    class Product(Accumulator):
        state = {"product": pa.float64()}  # noqa: RUF012
        result_type = pa.float64()

        def init(self) -> Any:
            return (1.0,)

        def update(self, state: list[pa.Array], columns: list[pa.Array]) -> Any:
            return [columns[0].fill_null(1).cast(pa.float64())]

        def merge(self, state: list[pa.Array], group: Any, groups: int) -> Any:
            starts = np.searchsorted(group, np.arange(groups))
            return [np.multiply.reduceat(state[0].to_numpy(), starts)]

        def result(self, state: list[pa.Array]) -> Any:
            if (state[0].to_numpy() > 100).any():
                raise ValueError("too large")
            return state[0]

    return Product


def retained(events: DataFrame, kind: type[Accumulator]) -> DataFrame:
    return retain(
        events, key="k", event_time="t", aggregates={"p": kind("x")}, policy=LONG, uid="products"
    )


def rows(*pairs: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"k": key, "t": ORIGIN + timedelta(seconds=x), "x": x} for key, x in pairs]


def test_a_class_travels_and_its_state_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed, sink, checkpoint = Feed(tmp_path / "in", SCHEMA), Sink(), tmp_path / "checkpoint"
    feed.add(rows(("a", 2), ("a", 3), ("b", 5)))
    run(retained(feed.stream(spark), product_class()), checkpoint, sink)
    feed.add(rows(("a", 7)))
    run(retained(feed.stream(spark), product_class()), checkpoint, sink)
    last = {row["k"]: row["p"] for row in sink.table.to_pylist() if row["change"] == "update"}
    assert last == {"a": 42.0, "b": 5.0}
    batch = retained(feed.table(spark), product_class()).collect()
    assert {row["k"]: row["p"] for row in batch} == last

    feed.add(rows(("a", 9)))
    with pytest.raises(Exception, match="too large") as raised:
        run(retained(feed.stream(spark), product_class()), checkpoint, sink)
    text = plain_message(str(raised.value)) or str(raised.value)
    assert text.startswith("operator 'products': aggregate p (")
    assert text.endswith("Product): result raised ValueError: too large")


def test_state_is_read_where_the_class_is_known(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, checkpoint = Feed(tmp_path / "in", SCHEMA), tmp_path / "checkpoint"
    feed.add(rows(("a", 2), ("a", 3)))
    kind = product_class()
    kind.__module__, kind.__qualname__ = "__main__", "Product"
    run(retained(feed.stream(spark), kind), checkpoint)
    with pytest.raises(Exception, match=r"__main__:Product is not found here"):
        read_state(spark, str(checkpoint)).collect()
    monkeypatch.setattr(sys.modules["__main__"], "Product", kind, raising=False)
    (found,) = read_state(spark, str(checkpoint)).collect()
    assert found["p"] == 6.0
