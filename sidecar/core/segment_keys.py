"""The keys of segments of runs in the store: `s/<uid>/<shard>/<run>/<number>`.

Here a segment is a part of a run's bytes (`idlestate.backends.runs.run_codec`) that fits into one
value of the store. The key of the record that names the run is `m/<uid>/<shard>`.
"""

from collections.abc import Iterator

from idlestate.backends.shards.shard_record import RunRef


def segment_key(uid: str, shard: int, run: str, at: int) -> str:
    """The key of a segment of a run."""
    return f"s/{uid}/{shard:05}/{run}/{at:06}"


def segment_keys(uid: str, shard: int, ref: RunRef) -> Iterator[str]:
    """The prefix of all segments of a run."""
    return (segment_key(uid, shard, ref.name, at) for at in range(ref.segments))


def is_segment(key: str) -> bool:
    """Whether a key is the key of a segment."""
    return key.startswith("s/")


def run_of(key: str) -> str:
    """The run of a segment."""
    return key.split("/")[3]
