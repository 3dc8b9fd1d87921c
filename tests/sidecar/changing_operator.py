"""An operator of a sidecar whose aggregates change."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.core.one_way_writes import Write
from idlestate.sidecar.core.shard_executor import SentRows
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.transfers import stream_of
from tests.sidecar.sidecar_world import (
    RULE,
    SHARDS,
    UID,
    World,
    lives_in_parts,
    policy_processing,
)

POLICY = policy_processing(RULE)
COLUMNS = {"k": pa.string(), "v": pa.int64(), "w": pa.int64()}
AFTER = {"events": "count", "top": "max(v)", "most": "max(w)", "seen": "count(w)"}
"""`n` is called `events`, `total` is dropped, `most` and `seen` are added."""
RENAMED = {"events": "n"}


def declaration(
    texts: Mapping[str, str] = AFTER, renamed: Mapping[str, str] = RENAMED, **types: pa.DataType
) -> Declaration:
    spec = TableSpec((("k", pa.string()),), aggregation(texts, COLUMNS | types))
    return Declaration.of(UID, spec, TimeDomain.PROCESSING, SHARDS, renamed)


def unowned(kind: str, directory: Path) -> Iterator[World]:
    """A sidecar with an operator that no query owns."""
    made = World(kind, directory)
    made.operator.batches.release()
    yield made
    made.close()


def crash(world: World) -> None:
    """The process starts again, with the file that it has now."""
    kept = world.operator.record.declaration
    world.close()
    world.declaration = kept
    world.open()


def add(world: World, seq: int, kind: str = "add", **columns: list[Any]) -> None:
    types = {name: COLUMNS[name] for name in columns}
    rows = pa.table({name: pa.array(each, types[name]) for name, each in columns.items()})
    session = world.claim("w", "w")
    write = Write("w", session, seq, uuid4().hex, kind, SentRows(stream_of(rows)))
    world.operator.writes.take(write, world.clock.now_ms())


def lives(world: World) -> dict[str, tuple[Any, ...]]:
    """Keys with their aggregates, in the order of the definition."""
    state = world.operator.state
    names = [name for name, _ in state.spec.kind.results]
    return {
        row["k"]: tuple(row[name] for name in names)
        for at, shard in enumerate(state.shards)
        for part in lives_in_parts(state.executor, shard, at, state.record.policy)
        for row in part.to_pylist()
    }
