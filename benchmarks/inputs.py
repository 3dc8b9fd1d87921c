"""Inputs: Parquet files drawn from a seed, two files a batch, made once and kept.

Columns: `key` string of 20 characters, `event_time` timestamp. Batch i holds the event times of
its own window of ten minutes, ascending in each file, so no row is late and a batch may come
whole. Files are read in the order of their modification times, which are set.
"""

import json
import os
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from recipes import LOAD_ROWS, PRELUDE_ROWS, WINDOW_MS, Draw, Recipe, Windows

Ints = npt.NDArray[np.int64]

START_MS = 1_740_960_000_000  # Monday 2025-03-03 00:00:00 UTC
FILES_PER_BATCH = 2
KEY_LENGTH = 20
ZIPF_EXPONENT = 1.1
FORGET_CYCLE_MS = 4 * 3_600_000
PRELUDE_WINDOW_MS = 1_000
_ALPHABET = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
_SCHEMA = pa.schema([("key", pa.string()), ("event_time", pa.timestamp("us", tz="UTC"))])


def make_input(recipe: Recipe, below: Path) -> Path:
    """The folder of an input's files; made if it is not there whole."""
    folder = below / recipe.folder
    if (folder / "facts.json").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "events").mkdir(parents=True)
    draw = {Draw.FORGET: forgetting, Draw.SPARSE: sparse}.get(recipe.draw, steady)
    ids, times = [], []
    names = key_names(recipe)
    for at, (batch_ids, batch_times) in enumerate(chain(prelude(recipe), draw(recipe))):
        _write(folder / "events", at, names.take(pa.array(batch_ids)), batch_times)
        ids.append(batch_ids)
        times.append(batch_times)
    facts = {
        "rows": sum(map(len, ids)),
        "keys": len(np.unique(np.concatenate(ids))),
        "keys_per_batch": int(
            np.median([len(np.unique(batch)) for batch in ids[recipe.prelude :]])
        ),
    }
    np.savez(folder / "drawn.npz", ids=np.concatenate(ids), times=np.concatenate(times))
    (folder / "facts.json").write_text(json.dumps(facts))
    return folder


def prelude(recipe: Recipe) -> Iterator[tuple[Ints, Ints]]:
    """Short batches that end just before the first one, a second of event time each.

    Their keys are drawn as later ones are; where an input counts its keys, they have one of
    their own.
    """
    rng = np.random.default_rng(recipe.seed + 2)
    reached = _reached(recipe)
    for at in range(-recipe.prelude, 0):
        if recipe.draw in (Draw.UNIFORM, Draw.ZIPF):
            ids = _drawn(recipe, rng, reached, PRELUDE_ROWS)
        else:
            ids = np.full(PRELUDE_ROWS, recipe.ids)
        within = np.sort(rng.integers(0, PRELUDE_WINDOW_MS, PRELUDE_ROWS))
        yield ids, START_MS + at * PRELUDE_WINDOW_MS + within


def steady(recipe: Recipe) -> Iterator[tuple[Ints, Ints]]:
    """Per batch the key numbers and event times (ms) of its rows."""
    rng = np.random.default_rng(recipe.seed)
    reached = _reached(recipe)
    for at in range(recipe.batches):
        ids = _drawn(recipe, rng, reached, recipe.rows)
        within = np.sort(rng.integers(0, WINDOW_MS, recipe.rows))
        yield ids, START_MS + at * WINDOW_MS + within


def _reached(recipe: Recipe) -> npt.NDArray[np.float64]:
    weights = np.arange(1, recipe.ids + 1) ** -ZIPF_EXPONENT
    reached: npt.NDArray[np.float64] = np.cumsum(weights) / weights.sum()
    return reached


def _drawn(
    recipe: Recipe, rng: np.random.Generator, reached: npt.NDArray[np.float64], rows: int
) -> Ints:
    if recipe.draw is Draw.ZIPF:
        return np.searchsorted(reached, rng.random(rows)).astype(np.int64)
    return rng.integers(0, recipe.ids, rows)


def forgetting(recipe: Recipe) -> Iterator[tuple[Ints, Ints]]:
    """Cycles of three batches: every key once; two hours later one row; a second later another.

    In event time the third finds the watermark past every key's deadline, so it sweeps them all.
    The last cycle ends with its second batch: a batch without data follows and sweeps.
    """
    rng = np.random.default_rng(recipe.seed)
    tick_id = np.array([recipe.ids])
    for cycle in range(recipe.batches):
        begin_ms = START_MS + cycle * FORGET_CYCLE_MS
        yield rng.permutation(recipe.ids), begin_ms + np.sort(rng.integers(0, 60_000, recipe.ids))
        yield tick_id, np.array([begin_ms + FORGET_CYCLE_MS // 2])
        if cycle < recipe.batches - 1:
            yield tick_id, np.array([begin_ms + FORGET_CYCLE_MS // 2 + 1000])


def sparse(recipe: Recipe) -> Iterator[tuple[Ints, Ints]]:
    """Every key once, in batches of `LOAD_ROWS`; then batches of `rows` different keys of all."""
    rng = np.random.default_rng(recipe.seed)
    ids = np.arange(recipe.ids)
    loads = [ids[at : at + LOAD_ROWS] for at in range(0, recipe.ids, LOAD_ROWS)]
    few = (rng.choice(recipe.ids, recipe.rows, replace=False) for _ in range(recipe.batches))
    for at, batch in enumerate(chain(loads, few)):
        within = np.sort(rng.integers(0, WINDOW_MS, len(batch)))
        yield batch, START_MS + at * WINDOW_MS + within


def key_names(recipe: Recipe) -> pa.Array:
    """The key of each number, all different, none like another: as session ids are."""
    rng = np.random.default_rng(recipe.seed + 1)
    letters = rng.integers(0, len(_ALPHABET), (recipe.ids + 1, KEY_LENGTH), dtype=np.uint8)
    data = _ALPHABET[letters]
    assert len(np.unique(data.view(f"S{KEY_LENGTH}"))) == len(data)
    offsets = np.arange(len(data) + 1, dtype=np.int32) * KEY_LENGTH
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(offsets), pa.py_buffer(data))


def churn_of(folder: Path, windows: Windows) -> dict[str, int]:
    """How many keys of an input end and come back for certain under these windows.

    A key that is silent for the max ends, whenever it was armed; one that is back before min + max
    is a returning key under the default `remember`.
    """
    drawn = np.load(folder / "drawn.npz")
    ids, times = drawn["ids"], drawn["times"]
    order = np.lexsort((times, ids))
    ids, times = ids[order], times[order]
    same = ids[1:] == ids[:-1]
    gap = times[1:] - times[:-1]
    silent = same & (gap >= windows.max_ms)
    back = silent & (gap <= windows.min_ms + windows.max_ms)
    last = np.append(~same, True)
    ended = np.append(silent, False) | (last & (times + windows.max_ms < times.max()))
    return {
        "keys": int(last.sum()),
        "end": len(np.unique(ids[ended])),
        "come_back": len(np.unique(ids[1:][back])),
        "span_ms": int(times.max() - times.min()) + 1,
    }


def _write(folder: Path, batch: int, keys: pa.Array, times_ms: Ints) -> None:
    table = pa.table([keys, pa.array(times_ms * 1000).view(_SCHEMA.field(1).type)], schema=_SCHEMA)
    for part in range(FILES_PER_BATCH):
        # Every other row: both files cover the whole window.
        rows = pa.array(np.arange(part, len(keys), FILES_PER_BATCH))
        path = folder / f"{batch:04d}-{part}.parquet"
        pq.write_table(table.take(rows), path)
        moment = START_MS // 1000 + batch * FILES_PER_BATCH + part
        os.utime(path, (moment, moment))
