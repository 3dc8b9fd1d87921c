"""Windows of fixed spans through packets, shards and tables, against the slow reference."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.key_hashes import hash_before, hash_keys
from idlestate.backends.shards import steps_by_window as module
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.early_results import showing
from idlestate.backends.shards.packet_codec import decode_packet, encode_packet
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.steps_by_window import windowed_steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.windows import WindowKind, Windows
from tests import window_reference as reference
from tests.backends.law_runner import restored
from tests.compare import is_same
from tests.lengths import law
from tests.reference import Record

KEYS = {
    "text": ([pa.string()], [("a",), ("b",), (None,), ("",)]),
    "pair": ([pa.string(), pa.int32()], [("a", None), (None, 1), ("a", 1), (None, None)]),
}
TYPES = {"v": pa.int64(), "x": pa.float64(), "s": pa.string(), "o": pa.int32()}
TEXTS = {
    "n": "count",
    "total": "sum(v)",
    "mean": "avg(x)",
    "least": "min(s)",
    "at_most": "max_by(s, v)",
    "oldest": "first(v)",
    "newest": "last(s)",
}
ORDER = ("o",)
VALUES = {"v": [1, None, -7, 40], "x": [0.5, None, -2.25], "s": ["m", "", None, "z"]}


@dataclass(frozen=True)
class Case:
    """Batches of records in whatever order, and how they travel."""

    window: Windows
    key_kind: str
    terms: list[tuple[int, int | None]]
    """Of each batch `delay` and `fire_after`, which may change between two."""
    batches: list[list[Record]]
    parts: int
    shards: int
    weak_hash: bool
    restores: bool


@st.composite
def windows(draw: st.DrawFn) -> Windows:
    kind = draw(st.sampled_from([each for each in WindowKind if each != "session"]))
    slide_ms = draw(st.integers(1, 6))
    times = 1 if kind is WindowKind.TUMBLING else draw(st.integers(1, 5))
    size_ms = slide_ms * times
    if size_ms == 1:
        slide_ms = size_ms = 2
    return Windows(kind, size_ms, slide_ms)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    key_kind = draw(st.sampled_from(sorted(KEYS)))
    start_ms = draw(st.sampled_from([0, 1_700_000_000_000]))
    keys = KEYS[key_kind][1]
    # Most records of a hot key.
    key = st.one_of(st.just(keys[0]), st.sampled_from(keys))
    records = st.builds(
        lambda key, t_ms, values, order: Record(key, start_ms + t_ms, values, order=(order,)),
        key,
        st.integers(0, 40),
        st.fixed_dictionaries({name: st.sampled_from(pool) for name, pool in VALUES.items()}),
        st.sampled_from([None, 1, 2]),
    )
    shows_early = draw(st.booleans())
    batches = draw(st.lists(st.lists(records, max_size=8), min_size=1, max_size=6))
    terms: list[tuple[int, int | None]] = []
    for _ in batches:
        if not terms or draw(st.integers(0, 3)) == 0:
            delay_ms = draw(st.integers(0, 20))
            after_ms = draw(st.integers(0, delay_ms)) if shows_early else None
        terms.append((delay_ms, after_ms))
    return Case(
        draw(windows()),
        key_kind,
        terms,
        batches,
        draw(st.integers(1, 3)),
        draw(st.integers(1, 2)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


def spec_of(case: Case, fire_after_ms: int | None = None) -> TableSpec:
    keys = tuple((f"k{at}", kind) for at, kind in enumerate(KEYS[case.key_kind][0]))
    kind = aggregation(TEXTS, TYPES, ORDER)
    return TableSpec.of_windows(keys, kind, (("o", TYPES["o"]),), case.window, fire_after_ms)


def packed(spec: TableSpec, records: list[Record]) -> Steps:
    keys = [
        pa.array([record.key[at] for record in records], kind)
        for at, (_, kind) in enumerate(spec.given_keys)
    ]
    values = {
        name: pa.array([record.values[name] for record in records], TYPES[name]) for name in VALUES
    }
    assert spec.fixed_window is not None
    steps = windowed_steps(
        spec,
        spec.fixed_window,
        keys,
        np.array([record.t_ms for record in records], dtype=np.int64),
        values,
        order=[pa.array([record.order[0] for record in records], TYPES["o"])],
        hashes=hash_before(keys),
    )
    newest_ms = max((record.t_ms or 0 for record in records), default=NEVER_MS)
    return decode_packet(encode_packet(replace(steps, newest_ms=newest_ms)), spec)


def plain(spec: TableSpec, rows: pa.Table) -> Iterator[dict[str, Any]]:
    names = [name for name, _ in spec.given_keys]
    for row in rows.to_pylist():
        times = ("window_start", "window_end", "created_at", "last_access", "expired_at")
        for name in times:
            moment = row[name]
            row[name] = None if moment is None else int(moment.timestamp() * 1000)
        yield {"key": tuple(row.pop(name) for name in names), **row}


def expected(
    case: Case,
) -> tuple[reference.FixedWindows, list[set[Any]], list[list[Record]], set[Any]]:
    """What the reference says; the windows that each batch shows, the records that count, and the
    windows with records that no batch has shown yet.
    """
    spans: Callable[[int], Iterator[tuple[int, int]]]
    size_ms, slide_ms = case.window.size_ms, case.window.slide_ms
    if case.window.kind is WindowKind.CUMULATE:
        spans = partial(reference.cumulate, size_ms=size_ms, step_ms=slide_ms)
    else:
        spans = partial(reference.hopping, size_ms=size_ms, slide_ms=slide_ms)
    found, shown_by, counted = reference.FixedWindows(spans, TEXTS), [], []
    ever: set[Any] = set()
    unshown: set[Any] = set()
    newest_ms = 0
    each = zip(case.batches, watermarks_ms(case), case.terms, strict=True)
    for batch, watermark_ms, (_, after_ms) in each:
        counted.append([record for record in batch if record.t_ms > watermark_ms])
        found.touched.clear()
        for record in counted[-1]:
            found.take(record)
        found.close(watermark_ms)
        shown = found.touched & found.open.keys()
        if after_ms is not None:
            reached = {at for at in found.open if newest_ms >= at[2] + after_ms}
            shown = (shown & reached) | (reached - ever)
            ever = reached
        newest_ms = max([newest_ms, *(record.t_ms or 0 for record in counted[-1])])
        shown_by.append(shown)
        unshown = (unshown | found.touched) - shown
    return found, shown_by, counted, unshown


def watermarks_ms(case: Case) -> list[int]:
    """Of each batch: the highest time of those before it less their delay, and never back."""
    found = [0]
    for batch, (delay_ms, _) in zip(case.batches, case.terms, strict=True):
        highest_ms = max((record.t_ms or 0 for record in batch), default=0)
        found.append(max(found[-1], highest_ms - delay_ms - 1))
    return found[:-1]


def assert_same_rows(wanted: list[dict[str, Any]], found: list[dict[str, Any]]) -> None:
    def place(row: dict[str, Any]) -> str:
        return repr((row["key"], row["window_start"], row["window_end"]))

    wanted, found = sorted(wanted, key=place), sorted(found, key=place)
    assert [place(row) for row in wanted] == [place(row) for row in found]
    for one, other in zip(wanted, found, strict=True):
        for name, value in one.items():
            assert is_same(value, other[name]), (name, one, other)


@law(14, case=cases())
def test_windows_are_those_of_the_reference_however_records_come(case: Case) -> None:
    spec, policy = spec_of(case), case.window.policy
    wanted, shown_by, counted, unshown = expected(case)
    tables, shown_ms, newest_ms = [ShardTable.empty(spec)] * case.shards, 0, 0
    with pytest.MonkeyPatch.context() as patched:
        if case.weak_hash:
            patched.setattr(module, "hash_after", lambda _, keys: hash_keys(keys) % 4)
        closed: list[dict[str, Any]] = []
        open_after: dict[Any, dict[str, Any]] = {}
        for batch_id, watermark_ms in enumerate(watermarks_ms(case)):
            records = counted[batch_id]
            parts = [packed(spec, records[at :: case.parts]) for at in range(case.parts)]
            steps = Steps.merged(parts)
            shows = showing(spec_of(case, case.terms[batch_id][1]), shown_ms, newest_ms)
            middle = np.searchsorted(steps.hashes, [0] * (case.shards - 1)).tolist()
            updates = []
            for at, (first, stop) in enumerate(pairwise([0, *middle, len(steps)])):
                merge = MergePolicy(segment_rows=3, segment_bytes=300)
                part = steps.slice(first, stop)
                outcome = tables[at].apply(
                    part, policy, watermark_ms, batch_id, merge, showing=shows
                )
                assert outcome.newest_ms == steps.newest_ms
                tables[at] = restored(outcome.table) if case.restores else outcome.table
                rows = list(plain(spec, outcome.changes))
                updates += [row for row in rows if row["change"] == "update"]
                closed += [row for row in rows if row["change"] == "expire"]
            if shows is not None:
                shown_ms = shows.upto_ms
            newest_ms = max(newest_ms, steps.newest_ms)
            shown = {(row["key"], row["window_start"], row["window_end"]) for row in updates}
            assert len(shown) == len(updates)
            assert shown == shown_by[batch_id]
            open_after |= dict(zip(map(_at, updates), updates, strict=True))
    assert_same_rows(wanted.closed, closed)
    assert all(row["expired_at"] == row["window_end"] - 1 for row in closed)
    # A raised fire_after can leave a window that was shown as it was.
    still = [wanted.open[at] for at in open_after if at in wanted.open and at not in unshown]
    left = [open_after[(span.key, span.start_ms, span.end_ms)] for span in still]
    assert_same_rows(reference.rows_of(still, TEXTS), left)
    lives = [row for table in tables for row in table.lives(policy).to_pylist()]
    assert len(lives) == len(wanted.open) == sum(len(table) for table in tables)


def _at(row: dict[str, Any]) -> Any:
    return row["key"], row["window_start"], row["window_end"]


def test_the_hash_of_a_window_is_that_of_its_key_columns() -> None:
    """So look-ups by key find windows as they find other keys."""
    case = Case(Windows(WindowKind.HOPPING, 10, 5), "pair", [], [], 1, 1, False, False)
    records = [
        Record(key, t_ms, {"v": 1, "x": 0.0, "s": ""}, order=(1,))
        for key in KEYS["pair"][1]
        for t_ms in (3, 8)
    ]
    steps = packed(spec_of(case), records)
    assert steps.hashes.tolist() == hash_keys(steps.keys).tolist()
    assert len(steps) == 4 * 3
