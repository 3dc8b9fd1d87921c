"""Chunks of a log on Spark hold whole keys, and their counts add up to those of the log."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from idlestate.advisor import chunks
from idlestate.advisor.partial_counts import LifeCounts, LogPart
from idlestate.advisor.sequences import Sequences
from idlestate.advisor.window_ladder import Window

WINDOWS = [Window.of(each) for each in ("10ms", "50ms", "10ms/50ms", "1s")]


def prepared(rows: pa.Table, rows_per_batch: int) -> list[pa.RecordBatch]:
    return list(chunks.prepare(iter(rows.to_batches(max_chunksize=rows_per_batch))))


def test_chunks_are_of_whole_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 4)
    keys = [0, 0, 1, None, None, None, None, None, None, None, 3, 4, 4, 5]
    rows = pa.table({"key_0": keys, "t_ms": range(14), "key_bytes": [8] * 14})
    for size in range(1, 15):
        found = prepared(rows, size)
        parts = list(chunks.parts(iter(found), None))
        assert sum(part.rows for part in parts) == 14
        assert sum(len(part.gaps.firsts) for part in parts) == 6
        assert len(parts) > 1
        assert sum(each["key_bytes"][0].as_py() for each in found) == 48


@pytest.mark.parametrize("stretch", [None, (100, 600)])
def test_counts_of_chunks_add_up_to_those_of_the_log(
    monkeypatch: pytest.MonkeyPatch, stretch: tuple[int, int] | None
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 40)
    chance = np.random.default_rng(5)
    log = pa.table(
        {
            "key_0": chance.integers(0, 60, 900),
            "key_1": [["x", None][each] for each in chance.integers(0, 2, 900)],
            "t_ms": chance.integers(0, 1000, 900),
            "key_bytes": [1] * 900,
        }
    ).sort_by([(name, "ascending") for name in ("key_0", "key_1", "t_ms")])
    keys = list(zip(log["key_0"].to_pylist(), log["key_1"].to_pylist(), strict=True))
    begins = np.array([True, *(one != other for one, other in pairwise(keys))])
    whole = LogPart(Sequences(log["t_ms"].to_numpy(), begins))
    whole = whole if stretch is None else whole.between(*stretch)
    parts = list(chunks.parts(iter(prepared(log, 7)), stretch))
    assert len(parts) > 10

    stretches = np.array([[0, 40, 90], [200, 201, 800]])
    asked = [(window, stretches) for window in WINDOWS]
    assert added(part.tallies(WINDOWS, 1000, 990) for part in parts) == added(
        [whole.tallies(WINDOWS, 1000, 990)]
    )
    expected = whole.live(asked)
    for at, found in enumerate(zip(*(part.live(asked) for part in parts), strict=True)):
        for side in (0, 1):
            assert np.array_equal(sum(each[side] for each in found), expected[at][side])


def added(tallies: Any) -> list[Sequence[int]]:
    """Per window the sums of all counts."""
    rows = np.array([[values(each) for each in part] for part in tallies])
    found: list[Sequence[int]] = rows.sum(axis=0).tolist()
    return found


def values(counts: LifeCounts) -> list[int]:
    names = ("created", "expired", "returning", "remembered", "live_ms")
    return [getattr(counts, name) for name in names]
