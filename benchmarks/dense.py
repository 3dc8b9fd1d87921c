"""Dense batches beside a table that is always one run per shard, without Spark.

    dense.py [--draw uniform|zipf] [--quick]

The same batches go through `advance` twice, each time before the next: as it is, and with a merge
policy under which every batch writes a shard anew. Printed are the milliseconds of the later
batches, all shards, and the ratio beside its aim.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from unittest import mock

from aims_against_spark import DENSE
from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards import shard_batch
from idlestate.retention.policy import Policy
from micro import Player, Stopwatch, operator, tasks_of
from recipes import Draw, Recipe, nothing_due
from scale import FULL, QUICK

ONE_RUN = partial(MergePolicy, dense=0)
STEP = "advance, all shards"


def measure(recipe: Recipe, warm_up: int) -> str:
    """One line for an input."""
    windows = nothing_due(recipe)
    spec = operator(Policy(idle_min_ms=windows.min_ms, idle_max_ms=windows.max_ms, min_gap_ms=0))
    ours, peers = Stopwatch(), Stopwatch()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        player, peer = Player(spec, Path(folder)), Player(spec, Path(other))
        for at, tasks in enumerate(tasks_of(recipe)):
            player.play(at, tasks, ours)
            with mock.patch.object(shard_batch, "MergePolicy", ONE_RUN):
                peer.play(at, tasks, peers)
        assert player.live_keys == peer.live_keys
    mine, theirs = (
        (
            statistics.mean(watch.wall_ms[STEP][warm_up:]),
            statistics.mean(watch.cpu_ms[STEP][warm_up:]),
        )
        for watch in (ours, peers)
    )
    times = mine[1] / theirs[1]
    verdict = "reached" if times <= DENSE else "missed"
    return (
        f"{recipe.draw:<8} {recipe.rows:>9,} {player.live_keys:>11,} {mine[0]:9.1f} "
        f"{theirs[0]:9.1f} {mine[1]:11.1f} {theirs[1]:9.1f} {times:8.2f}  "
        f"at most {DENSE}: {verdict}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", choices=[Draw.UNIFORM, Draw.ZIPF])
    parser.add_argument("--quick", action="store_true", help="small batches")
    asked = parser.parse_args(argv)
    scale = QUICK if asked.quick else FULL
    print("mean milliseconds of a later batch, all shards")
    print("         rows/batch   live keys      wall   one run   processor   one run    ratio")
    for draw in [Draw(asked.draw)] if asked.draw else [Draw.UNIFORM, Draw.ZIPF]:
        recipe = Recipe(draw=draw, rows=scale.rows, batches=scale.batches, ids=scale.ids)
        print(measure(recipe, scale.warm_up), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
