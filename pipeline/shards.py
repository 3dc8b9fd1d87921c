"""Shards: how keys are spread over groups, and groups over Spark's state partitions.

A shard is a contiguous range of the 64-bit key hash, `floor((hash + 2**63) * shards / 2**64)`, so
that a batch sorted by hash is cut into shards by slicing. Spark sees a shard as an integer and
puts it on state partition `pmod(hash(integer), partitions)`; small integers land unevenly, so
integers are searched for. Of S shards the i-th gets an integer whose hash is i modulo S: then every
number of partitions up to S has equally many on each, give or take one, and a checkpoint can be
taken to another number of partitions without a change of its shards.
"""

import struct

import mmh3
import numpy as np
import numpy.typing as npt

SHARDS_PER_PARTITION = 4
_SPARK_HASH_SEED = 42


def spark_partition(number: int, partitions: int) -> int:
    """The partition that Spark's hash partitioning gives an int column's value."""
    # Spark's `hash` is plain Murmur3 for inputs of whole 4-byte words.
    return int(mmh3.hash(struct.pack("<i", number), _SPARK_HASH_SEED)) % partitions


def shard_numbers(shards: int, partitions: int) -> list[int]:
    """For each shard the integer that stands for it in Spark.

    Each of `partitions`, or of any number up to `shards`, gets equally many, or some one more.
    """
    places = max(shards, partitions)
    numbers: dict[int, int] = {}
    candidate = 0
    while len(numbers) < shards:
        place = spark_partition(candidate, places)
        if place < shards:
            numbers.setdefault(place, candidate)
        candidate += 1
    return [numbers[place] for place in range(shards)]


def shard_bounds(hashes: npt.NDArray[np.int64], shards: int) -> npt.NDArray[np.int64]:
    """Where ascending hashes are cut into shards: shard i is rows bounds[i]..bounds[i + 1]."""
    edges = [-(-(i << 64) // shards) - (1 << 63) for i in range(1, shards)]
    inner = np.searchsorted(hashes, np.array(edges, dtype=np.int64))
    return np.concatenate([[0], inner, [len(hashes)]]).astype(np.int64)
