"""Records as steps of windows: one row for each key and window.

All records of a window belong to one life and are aggregated in any order, so they are aggregated
before the shuffle. They are first aggregated by slice (`idlestate.retention.windows`): a record in
many windows is processed once, and its slice once per window.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, take
from idlestate.backends.runs.key_hashes import hash_after
from idlestate.backends.runs.keys import Keys, find_distinct, take_keys
from idlestate.backends.shards.operator_kind import LifeKind
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.windows import Windows

Ints = npt.NDArray[np.int64]
TIMESTAMP = pa.timestamp("us", tz="UTC")


def windowed_steps(
    spec: TableSpec,
    window: Windows,
    keys: Keys,
    times_ms: Ints,
    values: Mapping[str, pa.Array],
    *,
    order: Sequence[pa.Array],
    hashes: Ints,
) -> Steps:
    """The steps of n records, which are all writes; the records of a key and window are one step.

    Args:
        spec: the table's spec.
        window: its windows, with fixed spans.
        keys: the key columns, except for the window's end.
        times_ms: event times.
        values: the columns that the kind reads, by name.
        order: the spec's order columns.
        hashes: hashes of these key columns, as in `hash_before`.
    """
    if not len(times_ms):
        return Steps.empty(spec)
    values = dict(values) | dict(zip((name for name, _ in spec.order), order, strict=True))
    carried = spec.kind.lift(values, np.ones(len(times_ms), dtype=bool), times_ms)
    ends_ms = window.slice_ends_ms(times_ms)
    steps, first = _added_up(spec.life_kind, hashes, keys, ends_ms, times_ms, carried)
    if window.size_ms == window.slide_ms:
        return steps
    at, ends_ms = window.of_slices(ends_ms[first])
    steps, _ = _added_up(
        spec.life_kind,
        hashes[first[at]],
        take_keys(keys, first[at]),
        ends_ms,
        steps.t_ms[at],
        [take(field, at) for field in steps.carried],
    )
    return steps


def _added_up(
    kind: LifeKind, hashes: Ints, keys: Keys, ends_ms: Ints, t_ms: Ints, carried: list[Field]
) -> tuple[Steps, Ints]:
    """A step for each key and window end, at its latest time; and the first row of each."""
    whole = [*keys, pa.array(ends_ms * 1000).view(TIMESTAMP)]
    hashes = hash_after(hashes, whole)
    distinct = find_distinct(hashes, whole)
    counts = distinct.counts
    starts = np.cumsum(counts) - counts
    steps = Steps(
        hashes[distinct.first],
        take_keys(whole, distinct.first),
        np.ones(len(counts), dtype=np.int64),
        np.maximum.reduceat(t_ms[distinct.order], starts),
        None,
        [],
        kind.combined([take(field, distinct.order) for field in carried], starts),
    )
    return steps, distinct.first
