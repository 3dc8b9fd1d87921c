"""Shards: how keys are spread over groups, and groups over Spark's state partitions.

A shard is a contiguous range of the 64-bit key hash (`idlestate.backends.shards.shard_ranges`).
Spark sees it as an integer and puts it on state partition `pmod(hash(integer), partitions)`; small
integers land unevenly, so integers are searched for. Of S shards each gets an integer whose hash is
another one modulo S: then every divisor of S is a number of partitions with equally many shards on
each, and a checkpoint can be taken from one to the other without a change of its shards.
"""

import struct
from collections import Counter
from collections.abc import Sequence

import mmh3

SHARDS_PER_PARTITION = 4
_SPARK_HASH_SEED = 42


def spark_partition(number: int, partitions: int) -> int:
    """The partition that Spark's hash partitioning gives an int column's value."""
    # Spark's `hash` is plain Murmur3 for inputs of whole 4-byte words.
    return int(mmh3.hash(struct.pack("<i", number), _SPARK_HASH_SEED)) % partitions


def shard_numbers(shards: int, partitions: int) -> list[int]:
    """For each shard the integer that stands for it in Spark, equally many per partition.

    When `shards` is no multiple of `partitions`, some partitions hold one more, and nothing is
    said of other numbers of partitions.
    """
    places = partitions if shards % partitions else shards
    most = -(-shards // places)
    room = [most] * places
    for full in range(shards % places or places, places):
        room[full] -= 1
    numbers: list[int] = []
    candidate = 0
    while len(numbers) < shards:
        place = spark_partition(candidate, places)
        if room[place]:
            room[place] -= 1
            numbers.append(candidate)
        candidate += 1
    return numbers


def even_partitions(numbers: Sequence[int]) -> list[int]:
    """Numbers of partitions over which shards with these integers are spread evenly."""
    shards = len(numbers)
    divisors = [count for count in range(1, shards + 1) if shards % count == 0]
    return [
        count
        for count in divisors
        if set(Counter(spark_partition(each, count) for each in numbers).values())
        == {shards // count}
    ]
