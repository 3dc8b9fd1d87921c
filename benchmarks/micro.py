"""`pack()` and `advance()` alone, without Spark: milliseconds per step of one micro-batch.

    micro.py [--draw uniform|zipf] [--case nothing-due|churn] [--in-order] [--functions N] [--quick]

Plays a stream of batches as Spark would: two packing tasks of half a batch each, then every shard
once, its runs as files. The later batches are timed: wall time, and the processor time of this
process, which other programs on the machine disturb less. Then the same batches are played under
the profiler, which says in which functions the time goes; its own cost is in those figures.
"""

import argparse
import cProfile
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.shard_batch import advance
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.pipeline.operator_spec import HASH, TIME, OperatorSpec
from idlestate.pipeline.pack import pack
from idlestate.pipeline.task_batch import TaskBatch
from idlestate.retention.policy import Policy
from idlestate.retention.policy_version import PolicyVersion
from inputs import FILES_PER_BATCH, key_names, steady
from jobs import CHURN, NOTHING_DUE
from recipes import Draw, Recipe, churn, nothing_due
from scale import FULL, QUICK

SHARDS = 8
_T = TypeVar("_T")


class Stopwatch:
    """Wall and processor milliseconds of named steps, batch by batch."""

    def __init__(self) -> None:
        self.wall_ms: dict[str, list[float]] = {}
        self.cpu_ms: dict[str, list[float]] = {}

    def time(self, step: str, work: Callable[[], _T]) -> _T:
        """Do the work and note how long it took."""
        wall, cpu = time.perf_counter(), time.process_time()
        done = work()
        self.cpu_ms.setdefault(step, []).append((time.process_time() - cpu) * 1000)
        self.wall_ms.setdefault(step, []).append((time.perf_counter() - wall) * 1000)
        return done


class Player:
    """Plays batches through `pack` and `advance`."""

    def __init__(self, spec: OperatorSpec, folder: Path) -> None:
        self._spec = spec
        self._files = Folder(str(folder))
        self._states = [ShardRecord(spec.uid, shard) for shard in range(SHARDS)]
        self._in_force = PolicyVersion(1, 0, spec.policy)
        self._highest_ms = -1

    def play(self, batch_id: int, tasks: Sequence[pa.RecordBatch], watch: Stopwatch) -> int:
        """One micro-batch; the bytes of its packets."""
        times = BatchTimes(batch_id, self._highest_ms - 1, self._highest_ms)
        task = TaskBatch(times, self._spec.table, list(range(SHARDS)), self._in_force, 100, None)
        packed = watch.time(
            "pack, both tasks",
            lambda: [next(pack(iter([rows]), self._spec, task)) for rows in tasks],
        )
        by_shard = list(zip(*(cells.column("packet").to_pylist() for cells in packed), strict=True))
        self._states = watch.time(
            "advance, all shards", lambda: [self._advance(*each, times) for each in
                                            zip(self._states, by_shard, strict=True)]
        )  # fmt: skip
        self._highest_ms = max(
            int(rows.column(TIME).to_numpy().max()) for rows in tasks if len(rows)
        )
        return sum(len(packet) for packets in by_shard for packet in packets)

    def _advance(
        self, state: ShardRecord, packets: Sequence[bytes], times: BatchTimes
    ) -> ShardRecord:
        files = RunFiles(self._files, state.shard, "one run")
        # A batch a second: by this clock the ages of keys are looked at.
        clocked = replace(times, time_ms=times.batch_id * 1000)
        advanced = advance(
            *(self._spec.table, state, files, packets, {}, clocked, self._in_force),
            self._spec.operator_step,
        )
        return files.remove_unwanted(advanced.record, times.batch_id + 2, 1, orphans=False)

    @property
    def live_keys(self) -> int:
        """Lives in all shards."""
        return sum(state.live_keys for state in self._states)


def operator(policy: Policy, *, in_order: bool = False) -> OperatorSpec:
    """A count per key in event time, as `retain` makes it."""
    types = {"key": pa.string(), "event_time": pa.timestamp("us", tz="UTC")}
    kind = aggregation({"n": "count"}, types)
    table = TableSpec((("key", pa.string()),), kind, in_order=in_order)
    return OperatorSpec(
        uid="micro",
        table=table,
        policy=policy,
        inputs=(("key", pa.string()),),
        read_when=None,
        max_ahead_ms=3_600_000,
        delay_ms=0,
        rejects=False,
        has_time=True,
        shards=SHARDS,
        runs=None,
        token="micro",  # noqa: S106 - names an operator
    )


def tasks_of(recipe: Recipe) -> Iterator[list[pa.RecordBatch]]:
    """Per batch what Spark would hand each packing task."""
    names = key_names(recipe)
    hashes = hash_keys([names])
    for ids, times_ms in steady(recipe):
        yield [
            pa.RecordBatch.from_arrays(
                [
                    pa.array(hashes[ids[part::FILES_PER_BATCH]]),
                    pa.array(times_ms[part::FILES_PER_BATCH]),
                    names.take(pa.array(ids[part::FILES_PER_BATCH])),
                ],
                names=[HASH, TIME, "key"],
            )
            for part in range(FILES_PER_BATCH)
        ]


def main(argv: Sequence[str] | None = None) -> int:
    """Play, time, profile, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", choices=[Draw.UNIFORM, Draw.ZIPF], default=Draw.UNIFORM)
    parser.add_argument("--case", choices=[NOTHING_DUE, CHURN], default=NOTHING_DUE)
    parser.add_argument("--in-order", action="store_true", help="rows wait for the watermark")
    parser.add_argument("--functions", type=int, default=45, help="lines of the profile")
    parser.add_argument("--quick", action="store_true", help="small batches")
    asked = parser.parse_args(argv)
    scale = QUICK if asked.quick else FULL
    recipe = Recipe(draw=Draw(asked.draw), rows=scale.rows, batches=scale.batches, ids=scale.ids)
    windows = (churn if asked.case == CHURN else nothing_due)(recipe)
    policy = Policy(idle_min_ms=windows.min_ms, idle_max_ms=windows.max_ms, min_gap_ms=0)
    spec = operator(policy, in_order=asked.in_order)
    batches = list(tasks_of(recipe))
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        player = Player(spec, Path(folder))
        sizes = [player.play(at, tasks, watch) for at, tasks in enumerate(batches)]
    print(
        f"{asked.draw}, {asked.case}: {recipe.rows:,} rows a batch, {SHARDS} shards, "
        f"{player.live_keys:,} live keys, {sizes[-1] / 2**20:.1f} MiB of packets"
    )
    later = slice(scale.warm_up, None)
    for step, found in watch.wall_ms.items():
        print(
            f"  {step:<22} {statistics.median(found[later]):8.1f} ms wall   "
            f"{statistics.median(watch.cpu_ms[step][later]):8.1f} ms processor"
        )
    _profile(spec, batches, scale.warm_up, asked.functions)
    return 0


def _profile(
    spec: OperatorSpec, batches: Sequence[list[pa.RecordBatch]], warm_up: int, lines: int
) -> None:
    profiler = cProfile.Profile(time.process_time)
    with tempfile.TemporaryDirectory() as folder:
        player = Player(spec, Path(folder))
        for at, tasks in enumerate(batches):
            if at == warm_up:
                profiler.enable()
            player.play(at, tasks, Stopwatch())
        profiler.disable()
    measured = len(batches) - warm_up
    entries: list[tuple[float, float, int, str]] = []
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    for (file, line, name), (_, calls, own, below, _) in stats.items():
        short = "/".join(Path(file).parts[-2:])
        where = name if file == "~" else f"{short}:{line} {name}"
        entries.append((below * 1000 / measured, own * 1000 / measured, calls // measured, where))
    print("\n  processor ms per batch, under the profiler")
    print(f"  {'with calls':>10} {'alone':>8} {'calls':>7}  function")
    for below, own, calls, where in sorted(entries, reverse=True)[:lines]:
        print(f"  {below:10.1f} {own:8.1f} {calls:7d}  {where}")


if __name__ == "__main__":
    sys.exit(main())
