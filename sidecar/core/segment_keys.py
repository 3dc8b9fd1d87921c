"""Where the segments of runs are in the store: `s/<uid>/<shard>/<run>/<number>`.

Here a segment is a part of a run's bytes (`idlestate.backends.runs.run_codec`) that is small enough
for one value of the store. The record that names the run is under `m/<uid>/<shard>`.
"""

from collections.abc import Iterator

from idlestate.backends.shards.shard_record import RunRef


def segment_key(uid: str, shard: int, run: str, at: int) -> str:
    """Where a segment of a run is."""
    return f"s/{uid}/{shard:05}/{run}/{at:06}"


def segment_keys(uid: str, shard: int, ref: RunRef) -> Iterator[str]:
    """Where all segments of a run are."""
    return (segment_key(uid, shard, ref.name, at) for at in range(ref.segments))


def is_segment(key: str) -> bool:
    """Whether a key is that of a segment."""
    return key.startswith("s/")


def run_of(key: str) -> str:
    """The run that a segment belongs to."""
    return key.split("/")[3]
