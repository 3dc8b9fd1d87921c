"""A query as its sidecar sees it, without a JVM: batches of two tasks, one behind the other.

    played_query.py PLACE KEYS

Each batch writes as many rows as there are keys. It says `ready` when the first batch is committed,
and goes on until its standard input ends.
"""

import itertools
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from idlestate import Policy
from idlestate.backends.shards.packet_codec import encode_packet
from idlestate.backends.shards.shard_ranges import shard_bounds
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.protocol.connection import Address
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.routes import Routes
from idlestate.sidecar.protocol.transfers import CHUNK_BYTES
from idlestate.timers.clock import SystemClock
from served_sidecar import EXPIRE_MS, UID, keys_of

TASKS = 2
SEED = 20_250_304
POLICY = Policy(
    idle_min_ms=EXPIRE_MS // 2, idle_max_ms=EXPIRE_MS, time=TimeDomain.PROCESSING, min_gap_ms=0
)


def play(place: str, keys: int) -> None:
    """Run batches until standard input ends."""
    done = threading.Event()
    draw = np.random.default_rng(SEED)
    with (
        closing(Routes(Address(place))) as routes,
        tempfile.TemporaryDirectory(prefix="idlestate-bench-") as checkpoint,
        ThreadPoolExecutor(TASKS) as tasks,
    ):
        commits = Path(checkpoint) / "commits"
        commits.mkdir()
        declared = routes.main.call("describe", {"uid": UID}).header["declaration"]
        declaration = Declaration.from_json(declared)
        owner = {"query_id": "played", "run_id": "run"}
        routes.main.call("begin", {"uid": UID, **owner, "checkpoint": checkpoint})
        routes.ask()
        threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
        for batch_id in itertools.count():
            ids = draw.integers(0, keys, keys)
            packets = _packets(declaration.spec(), ids, declaration.shards)
            batch = {
                **owner,
                "execution_id": f"{batch_id}",
                "batch_id": batch_id,
                "time_ms": SystemClock().now_ms(),
            }
            running = [tasks.submit(_task, routes, batch, at, packets) for at in range(TASKS)]
            for each in running:
                each.result()
            (commits / f"{batch_id}").write_text("v1\n{}")
            if not batch_id:
                print("ready", flush=True)
            if done.is_set():
                return


def _packets(spec: TableSpec, ids: Any, shards: int) -> list[bytes]:
    """What the packing tasks of a pipeline hand over: a packet per shard."""
    keys = [keys_of(ids).column("key").combine_chunks()]
    steps = Steps.from_records(spec, keys, np.zeros(len(ids), dtype=np.int64), {})
    bounds = shard_bounds(steps.hashes, shards).tolist()
    return [encode_packet(steps.slice(bounds[at], bounds[at + 1])) for at in range(shards)]


def _task(routes: Routes, batch: dict[str, Any], at: int, packets: Sequence[bytes]) -> None:
    """One task of a batch, from end to end."""
    shards = range(at, len(packets), TASKS)
    attempt = {
        **batch,
        "attempt": 0,
        "partition": at,
        "partitions": TASKS,
        "shards": list(shards),
        "watermark_ms": -1,
        "policy": POLICY.to_json(),
    }
    handle = routes.main.call("open", {"uid": UID, "attempt": attempt}).header["handle"]
    ranges: set[int] = set()
    for shard in shards:
        to = routes.range_of(shard, len(packets))
        for place, begin in enumerate(range(0, len(packets[shard]), CHUNK_BYTES)):
            facts = {"handle": handle, "at": [shard, 0, place], "is_first": to not in ranges}
            part = packets[shard][begin : begin + CHUNK_BYTES]
            routes.to_range(to).call("chunk", facts, part)
            ranges.add(to)
    finish = {"handle": handle, "counts": {}, "ranges": sorted(ranges)}
    answer = routes.main.call("finish", finish).header
    for to, chunks in enumerate(answer["chunks"]):
        for chunk in range(chunks):
            routes.to_range(to).call("fetch", {"handle": handle, "at": chunk})
        routes.to_range(to).call("close", {"handle": handle})
    routes.main.call("close", {"handle": handle})


if __name__ == "__main__":
    play(sys.argv[1], int(sys.argv[2]))
