"""Which range of shards an operator's shard falls into: ranges are contiguous, one per worker.

Keys of values in a store name the shard, `s/<uid>/<shard>/...`, so that a value says whose it is.
"""

from collections.abc import Sequence

OF_SHARDS = ("s/", "x/")
"""How the keys of values begin that are kept where the tables of their shard are."""


def range_of(shard: int, shards: int, ranges: int) -> int:
    """The range that a shard is in."""
    return shard * ranges // shards


def shards_of(at: int, shards: int, ranges: int) -> Sequence[int]:
    """The shards of a range; none where there are more ranges than shards."""
    return range(-(-at * shards // ranges), -(-(at + 1) * shards // ranges))


def shard_of(key: str) -> int:
    """The shard that a segment or staged expire rows belong to."""
    return int(key.split("/", 3)[2])


def is_of_shard(key: str) -> bool:
    """Whether a value is kept where the tables of its shard are."""
    return key.startswith(OF_SHARDS)
