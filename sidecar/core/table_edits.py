"""The edits of one-way writers to a shard's table: add, put, touch, read, remove; pure functions.

`add` adds records to the aggregates, as a batch does. `put` replaces a key's aggregates with those
of one record, while its life continues. `touch` is a write that changes no value and creates
nothing. `read` is an access only under `on_read_and_write`. `remove` removes the key at once,
without an expired record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.runs.keys import find_distinct, take_keys
from idlestate.backends.runs.rows import Rows
from idlestate.backends.shards import remembered_keys
from idlestate.backends.shards.key_counts import KeyCounts
from idlestate.backends.shards.shard_table import Outcome, ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS, Ends, is_due

Ints = npt.NDArray[np.int64]
KINDS = ("add", "put", "touch", "read", "remove")
_OF_KEYS = ("touch", "read", "remove")


def edit_steps(
    spec: TableSpec, kind: str, keys: Sequence[pa.Array], values: Mapping[str, pa.Array], t_ms: int
) -> Steps:
    """The rows of a write as steps, all with the same time; for a put, the last row of each key."""
    n = len(keys[0])
    hashes = hash_keys(keys)
    if kind == "put" and n:
        key = find_distinct(hashes, keys).key
        last = np.full(int(key.max()) + 1, -1)
        np.maximum.at(last, key, np.arange(n))
        rows = np.sort(last)
        keys, hashes, n = take_keys(keys, rows), hashes[rows], len(rows)
        values = {name: column.take(pa.array(rows)) for name, column in values.items()}
    is_blank = kind in _OF_KEYS
    if is_blank:
        kinds = dict(spec.kind.inputs) | dict(spec.order)
        values = {name: pa.nulls(n, each) for name, each in kinds.items()}
    steps = Steps.from_records(
        spec,
        keys,
        np.full(n, t_ms),
        values,
        reads=np.ones(n, dtype=bool) if is_blank else None,
        order=[values[name] for name, _ in spec.order],
        hashes=hashes,
    )
    return replace(steps.collapsed(spec.kind), is_read=None)


def edited(
    table: ShardTable,
    kind: str,
    steps: Steps,
    policy: Policy,
    t_ms: int,
    version: int,
    merge: MergePolicy,
) -> Outcome:
    """The table after a write of this kind.

    Raises:
        SumOverflowError: a sum overflows its type; the table is unchanged.
    """
    if kind in _OF_KEYS:
        at, old = table.current.look_up(steps.hashes, steps.keys)
        is_open = at >= 0
        is_open[is_open] = ~is_due(old.lives.ends(policy).deadline_ms, t_ms)
        steps = _of_keys(steps, np.flatnonzero(is_open))
        if kind == "remove":
            return _removed(table, steps, at[is_open], policy, version, merge)
    if kind == "read":
        steps = replace(steps, is_read=np.ones(len(steps.t_ms), dtype=bool))
    outcome = table.apply(steps, policy, None, version, merge, shows_updates=False)
    if kind == "put":
        fresh = table.kept(replace(outcome.current.fresh, payload=steps.carried))
        outcome = replace(outcome, current=replace(outcome.current, fresh=fresh))
    table.spec.kind.result(outcome.current.fresh.payload)  # it is not emitted, but must fit
    return outcome


def _of_keys(steps: Steps, rows: Ints) -> Steps:
    """Some keys of collapsed steps of one row each."""
    whole = Rows(steps.hashes, steps.keys, _never(len(steps)), steps.carried).take(rows)
    return replace(
        steps,
        hashes=whole.hashes,
        keys=whole.keys,
        counts=steps.counts[rows],
        t_ms=steps.t_ms[rows],
        order=take_keys(steps.order, rows),
        carried=whole.payload,
    )


def _removed(
    table: ShardTable, steps: Steps, at: Ints, policy: Policy, version: int, merge: MergePolicy
) -> Outcome:
    gone = Rows(steps.hashes, steps.keys, _never(len(steps)), steps.carried)
    none = np.zeros(0, dtype=np.int64)
    live = len(table) - len(at)
    current = table.current.after(gone, at, live, policy, None, version, merge)
    remembered = remembered_keys.remembered(
        table.remembered, none, none, Ends.joined([]), policy, None, version, merge
    )
    nothing = table.apply(Steps.empty(table.spec), policy, None, version, merge)
    return Outcome(
        table.spec, current, remembered, table.seen, nothing.changes, KeyCounts(), FOREVER_MS
    )


def _never(n: int) -> Lives:
    never = np.full(n, NEVER_MS)
    return Lives(never, never, never, never)
