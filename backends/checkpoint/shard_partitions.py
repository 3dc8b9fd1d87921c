"""The distribution of shards over Spark's state partitions.

A shard is a contiguous range of the 64-bit key hash (`idlestate.backends.shards.shard_ranges`).
Spark sees it as an integer and assigns it to state partition `pmod(hash(integer), partitions)`.
This distributes small integers unevenly, so suitable integers are searched for: the hashes of the
S integers differ modulo S. If the number of partitions is any divisor of S, each partition then
has the same number of shards, and a checkpoint can be repartitioned without changing its shards.
"""

import struct
from collections import Counter
from collections.abc import Sequence

import mmh3

SHARDS_PER_PARTITION = 4
_SPARK_HASH_SEED = 42


def spark_partition(number: int, partitions: int) -> int:
    """The partition that Spark's hash partitioning assigns to the value of an int column."""
    # Spark's `hash` is plain Murmur3 for inputs of whole 4-byte words.
    return int(mmh3.hash(struct.pack("<i", number), _SPARK_HASH_SEED)) % partitions


def shard_numbers(shards: int, partitions: int) -> list[int]:
    """The integer of each shard in Spark, with equally many shards per partition.

    If `shards` is not a multiple of `partitions`, some partitions have one more, and other numbers
    of partitions may be uneven.
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
    """Numbers of partitions over which shards with these integers are distributed evenly."""
    shards = len(numbers)
    divisors = [count for count in range(1, shards + 1) if shards % count == 0]
    return [
        count
        for count in divisors
        if set(Counter(spark_partition(each, count) for each in numbers).values())
        == {shards // count}
    ]
