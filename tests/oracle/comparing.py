"""A run's lives as the oracle has them, and where the two differ."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import committed_batch
from idlestate.pipeline.checkpoint.state_store_shards import read_shards
from idlestate.pipeline.read_state import read_state
from idlestate.retention.policy import FOREVER_MS, Policy
from tests.oracle.idle_oracle import AGGREGATES, IdleOracle, Life

SHOWN = 5
ROW_TIMES = ("created_at", "last_access", "expired_at")
STATE_TIMES = ("created_at", "written_at", "cleanup_at")

EXACT = Policy(remember_ms=FOREVER_MS)
"""Every ended key is remembered."""


def differences(
    oracle: IdleOracle,
    changes: pa.Table,
    spark: SparkSession,
    checkpoint: Path,
    *,
    uid: str,
    keys: Sequence[str],
    rows: int,
) -> list[str]:
    """What a finished query got wrong, in words; nothing when it equals the oracle.

    Args:
        oracle: after its last row and sweep.
        changes: the query's expire rows; others are left out.
        spark: a session that can read state.
        checkpoint: the query's.
        uid: the operator's.
        keys: its key columns.
        rows: how many rows were put in.
    """
    expired = changes.filter(pc.equal(changes.column("change"), "expire"))
    wrong = _multisets("expire rows", oracle.ended, lives_of(expired, keys, ROW_TIMES))
    if set(expired.column("reason").unique().to_pylist()) - {"idle"}:
        wrong.append("some expire row's reason is not idle")
    states = read_state(spark, str(checkpoint), uid).toArrow()
    wrong += _multisets("final states", oracle.lives, lives_of(states, keys, STATE_TIMES))
    wrong += _derived(states, oracle.max_ms)
    shards = read_shards(spark, str(checkpoint), uid, committed_batch(Folder(str(checkpoint))))
    counts = {
        "returning_keys": (
            oracle.returning_keys,
            sum(shard.tally.returning_keys for shard in shards),
        ),
        "lives begun": (
            len(oracle.ended) + len(oracle.open),
            sum(shard.tally.created for shard in shards),
        ),
        "lives ended": (len(oracle.ended), sum(shard.tally.expired[2] for shard in shards)),
        "keys ever seen": (
            len(oracle.seen),
            sum(shard.keys_ever_seen(EXACT) for shard in shards),
        ),
        "input rows": (rows, sum(shard.rows.input for shard in shards)),
        "late rows": (0, sum(shard.rows.late for shard in shards)),
    }
    wrong += [
        f"{what}: the oracle says {expected}, the state {found}"
        for what, (expected, found) in counts.items()
        if expected != found
    ]
    return wrong


def lives_of(table: pa.Table, keys: Sequence[str], times: Sequence[str]) -> list[Life]:
    """Rows of a changelog or of `read_state` as the oracle's tuples."""
    millis = [milliseconds(table, name) for name in times]
    results = [table.column(name).to_pylist() for name in AGGREGATES]
    key = zip(*(table.column(name).to_pylist() for name in keys), strict=True)
    return list(zip(key, *millis, *results, strict=True))


def milliseconds(table: pa.Table, name: str) -> list[int]:
    micros = table.column(name).cast(pa.int64())
    millis = pc.divide(micros, 1000)
    assert pc.all(pc.equal(pc.multiply(millis, 1000), micros)).as_py() is not False, name
    found: list[int] = millis.to_pylist()
    return found


def _derived(states: pa.Table, max_ms: int) -> list[str]:
    """Columns of the states that follow from the ones the oracle has."""
    cleanup = milliseconds(states, "cleanup_at")
    rules = {
        "armed_at": [t_ms - max_ms for t_ms in cleanup],
        "deadline": cleanup,
        "last_access": milliseconds(states, "written_at"),
    }
    return [
        f"final states: {name} does not follow from cleanup_at and written_at"
        for name, expected in rules.items()
        if milliseconds(states, name) != expected
    ]


def _multisets(what: str, expected: Iterable[Life], found: Iterable[Life]) -> list[str]:
    wanted, there = Counter(expected), Counter(found)
    missing, extra = wanted - there, there - wanted
    if not missing and not extra:
        return []
    return [
        f"{what}: of {wanted.total()}, {missing.total()} are missing and {extra.total()} too many",
        *(f"  missing  {life}" for life in sorted(missing)[:SHOWN]),
        *(f"  too many {life}" for life in sorted(extra)[:SHOWN]),
    ]
