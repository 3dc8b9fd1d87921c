"""Keys of every type: grouped as SQL groups them, hashed alike in the JVM and in Python."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate import Policy, retain
from idlestate.backends.checkpoint.shard_partitions import (
    even_partitions,
    shard_numbers,
    spark_partition,
)
from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.pipeline.key_hash import key_hash
from tests.pipeline.streams import Feed
from tests.pipeline.values import KEYS, SCHEMA, make_rows

LONG = Policy(idle_min_ms=3_600_000, idle_max_ms=7_200_000)
PAIRS = [
    ("k_string", "k_byte"),
    ("k_boolean", "k_boolean2"),
    ("k_long", "k_timestamp", "k_binary"),
    tuple(KEYS),
]
GROUPINGS = [*((name,) for name in KEYS), *PAIRS]
SHORT = {("k_timestamp",), *PAIRS[1:]}


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    feed = Feed(tmp_path_factory.mktemp("keys") / "input", SCHEMA)
    feed.add(make_rows(300, seed=5))
    # Two columns of one type, in which a null here and a null there must not be one key.
    return feed.table(spark).withColumn("k_boolean2", F.expr("k_byte > 0"))


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(keys, id="+".join(keys), marks=() if keys in SHORT else pytest.mark.long)
        for keys in GROUPINGS
    ],
)
def test_keys_are_grouped_as_sql_groups_them(
    spark: SparkSession, events: DataFrame, keys: tuple[str, ...]
) -> None:
    changes = retain(
        events,
        key=list(keys),
        event_time="event_time",
        aggregates={"n": "count"},
        policy=LONG,
        uid="keys",
    )
    assert [changes.schema[name].dataType for name in keys] == [
        events.schema[name].dataType for name in keys
    ]
    found = changes.select(*keys, "n").toArrow().to_pylist()
    grouped = events.groupBy(*keys).agg(F.count(F.lit(1)).alias("n")).toArrow().to_pylist()
    assert Counter(map(plain, found)) == Counter(map(plain, grouped))


def plain(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def test_jvm_and_python_hash_keys_alike(spark: SparkSession, events: DataFrame) -> None:
    hashes = [key_hash(keys).alias(f"hash_{at}") for at, keys in enumerate(GROUPINGS)]
    table = events.select("*", *hashes).toArrow().combine_chunks()
    for at, keys in enumerate(GROUPINGS):
        columns = [array_of(table, name) for name in keys]
        assert (hash_keys(columns) == table.column(f"hash_{at}").to_numpy()).all(), keys


def array_of(table: pa.Table, name: str) -> pa.Array:
    kind = KEYS[name][0] if name in KEYS else pa.bool_()
    return pa.concat_arrays(table.column(name).cast(kind).chunks)


def test_null_in_one_column_is_not_null_in_another() -> None:
    left = hash_keys([pa.array(["a", None]), pa.array([None, "a"])])
    assert left[0] != left[1]


def test_spark_puts_an_integer_where_we_think(spark: SparkSession) -> None:
    numbers = spark.range(200).selectExpr("cast(id as int) as shard")
    for partitions in (1, 2, 3, 7):
        spread = numbers.repartition(partitions, "shard")
        placed = spread.select("shard", F.spark_partition_id().alias("at")).collect()
        assert {row.shard: row.at for row in placed} == {
            number: spark_partition(number, partitions) for number in range(200)
        }


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 7, 16, 200])
@pytest.mark.parametrize("shards", [1, 2, 4, 5, 8, 64])
def test_shards_are_spread_evenly_over_partitions(shards: int, partitions: int) -> None:
    numbers = shard_numbers(shards, partitions)
    assert len(set(numbers)) == len(numbers) == shards
    held = Counter(spark_partition(number, partitions) for number in numbers)
    counts = [held[partition] for partition in range(partitions)]
    assert max(counts) - min(counts) <= 1
    assert np.sum(counts) == shards


def test_every_divisor_of_the_shards_is_a_number_of_partitions() -> None:
    assert even_partitions(shard_numbers(48, 12)) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 48]
    assert even_partitions([0, 1, 2, 3]) == [1]
