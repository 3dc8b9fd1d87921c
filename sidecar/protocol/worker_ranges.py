"""Ranges of shards: contiguous, one per worker.

Keys of values in a store contain the shard, `s/<uid>/<shard>/...`, which determines a value's
range.
"""

from collections.abc import Sequence

OF_SHARDS = ("s/", "x/")
"""Prefixes of the values that are stored with the tables of their shard."""


def range_of(shard: int, shards: int, ranges: int) -> int:
    """The range of a shard."""
    return shard * ranges // shards


def shards_of(at: int, shards: int, ranges: int) -> Sequence[int]:
    """The shards of a range; there may be none if there are more ranges than shards."""
    return range(-(-at * shards // ranges), -(-(at + 1) * shards // ranges))


def shard_of(key: str) -> int:
    """The shard of a segment or of staged expire rows."""
    return int(key.split("/", 3)[2])


def is_of_shard(key: str) -> bool:
    """Whether a value is stored with the tables of its shard."""
    return key.startswith(OF_SHARDS)
