"""Applies a batch to a shard of a join, as `ShardTable.apply` does for other operators."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.fields import Field, is_valid, take, to_arrow
from idlestate.backends.runs.keys import take_keys
from idlestate.backends.runs.rows import Rows
from idlestate.backends.shards import keys_seen_sketch
from idlestate.backends.shards.changelog_rows import change_schema
from idlestate.backends.shards.emitted_rows import ROWS_PER_CELL
from idlestate.backends.shards.join_matches import Matches, are_matched, distinct, matches
from idlestate.backends.shards.join_side import JoinSide, Loose
from idlestate.backends.shards.key_counts import KeyCounts
from idlestate.backends.shards.shard_record import OPEN
from idlestate.backends.shards.shard_table import Outcome, ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.stream_join import FAR_MS, StreamJoin
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policies, Policy
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def apply_join(
    table: ShardTable,
    steps: Steps,
    policies: Policies,
    sweep_at_ms: int | None,
    batch_id: int,
    merge: MergePolicy,
) -> Outcome:
    """Apply a batch to a shard; arguments as in `ShardTable.apply`, with a policy per input.

    The change rows are a reader that creates them in portions.
    """
    kind = table.spec.kind
    assert isinstance(kind, StreamJoin)
    sides, is_loose = _sides(kind, table, steps, policies)
    left, right = sides
    low_ms, high_ms = bounds_ms(kind, policies)
    found = matches(left.rows, right.rows, low_ms, high_ms)
    matched = [are_matched(found, left.rows), np.zeros(len(right.rows), dtype=bool)]
    if right.of.counts_matches:
        back = matches(right.rows, left.rows, -high_ms, -low_ms)
        matched[1] = are_matched(back, right.rows)
    loose: list[tuple[int, Loose]] = []
    others, expired = {}, np.zeros(3, dtype=np.int64)
    for at, (side, is_matched) in enumerate(zip(sides, matched, strict=True)):
        due = side.due(sweep_at_ms)
        expired += side.reasons(due)[:3]
        if side.of.counts_matches:
            is_first = side.first_matches(is_matched)
            others[side.of.matched] = side.following_marks(is_first, sweep_at_ms, batch_id, merge)
            if kind.how == "semi":
                rows = side.rows
                loose.append((at, _taken(steps, rows.key[is_first], rows.columns, is_first)))
        if side.of.is_kept_unmatched:
            ended = side.unmatched(is_matched, due, sweep_at_ms, merge.segment_bytes)
            loose += ((at, each) for each in ended)
            loose.append((at, is_loose[at]))
        others[side.of.table] = side.following(
            is_matched, due, sweep_at_ms, batch_id, merge, keeps_matched=kind.emits_pairs
        )
    output = _Output(table, kind, steps, left, right, batch_id)
    emitted = chain(output.pairs(found) if kind.emits_pairs else (), output.loose(loose))
    fresh = [others[side.of.table].fresh for side in sides]
    due_ms = [each.lives.due_ms(of.policy) for each, of in zip(fresh, sides, strict=True)]
    came = np.concatenate([side.fresh.hashes for side in sides])
    born = np.concatenate([each.hashes for each in fresh])
    lifetime, ttl, idle = expired.tolist()
    remembered = table.remembered
    nothing = Rows(born[:0], [], Lives(*[born[:0]] * 4), [np.zeros(0, dtype=np.int8)])
    return Outcome(
        table.spec,
        others.pop(OPEN),
        remembered.after(nothing, born[:0], 0, Policy(), None, batch_id, merge),
        keys_seen_sketch.add(table.seen, came) if len(came) else table.seen,
        pa.RecordBatchReader.from_batches(output.schema, emitted),
        KeyCounts(created=len(born), expired=(lifetime, ttl, idle)),
        int(np.concatenate(due_ms).min(initial=FOREVER_MS)),
        others,
    )


def bounds_ms(kind: StreamJoin, policies: Policies) -> tuple[int, int]:
    """The least and the greatest time from a left row to a matching right row, if the earlier row
    must still be kept at the time of the later one.
    """
    low_ms, high_ms = kind.between or (-FAR_MS, FAR_MS)
    left_ms, right_ms = (_kept_ms(policy) for policy in policies)
    return max(low_ms, -right_ms), min(high_ms, left_ms)


def _kept_ms(policy: Policy) -> int:
    """How long after its time a row is kept, including the last millisecond."""
    zero, never = np.zeros(1, dtype=np.int64), np.full(1, NEVER_MS)
    end_ms = int(Lives(zero, zero, never, never).ends(policy).deadline_ms[0])
    return min(end_ms - 1, FAR_MS)


def _sides(
    kind: StreamJoin, table: ShardTable, steps: Steps, policies: Policies
) -> tuple[list[JoinSide], list[Loose]]:
    """The two inputs, and each one's new rows with a null in the key, which match nothing."""
    key = np.repeat(np.arange(len(steps)), steps.counts)
    is_right = np.zeros(len(key), bool) if steps.is_read is None else steps.is_read
    is_null = np.zeros(len(steps), dtype=bool)
    for column in steps.keys:
        is_null |= ~is_valid(column)
    new = [np.flatnonzero((is_right == at) & ~is_null[key]) for at in (False, True)]
    width = len(kind.left_columns)
    columns = steps.carried[:width], steps.carried[width:]
    tables = {OPEN: table.current, **table.others}
    sides, loose = [], []
    for at, of in enumerate(kind.inputs_of):
        runs = tables[of.table], tables.get(of.matched)
        # Rows in state can match only new rows of the other input.
        asked = distinct(key[new[1 - at]])
        sides.append(JoinSide.opened(of, runs, policies[at], steps, columns[at], new[at], asked))
        null = (is_right == bool(at)) & is_null[key]
        loose.append(_taken(steps, key[null], columns[at], null))
    return sides, loose


def _taken(steps: Steps, key: Ints, columns: list[Field], chosen: Flags) -> Loose:
    at = np.flatnonzero(chosen)
    return Loose(take_keys(steps.keys, key), [take(column, at) for column in columns])


@dataclass(frozen=True)
class _Output:
    """Creates the emitted rows."""

    table: ShardTable
    kind: StreamJoin
    steps: Steps
    left: JoinSide
    right: JoinSide
    batch_id: int

    @property
    def schema(self) -> pa.Schema:
        return change_schema(self.table.spec)

    def pairs(self, found: tuple[Matches, Matches]) -> Iterator[pa.RecordBatch]:
        left, right = self.left.rows, self.right.rows
        for at, other in Matches.joined(found).pairs(ROWS_PER_CELL):
            columns = [take(field, at) for field in left.columns]
            columns += [take(field, other) for field in right.columns]
            yield self._batch(take_keys(self.steps.keys, left.key[at]), columns)

    def loose(self, parts: list[tuple[int, Loose]]) -> Iterator[pa.RecordBatch]:
        """Rows of one input (0 or 1), with nulls in place of the other input's columns."""
        for at, part in parts:
            n = len(part.keys[0])
            columns = list(part.columns)
            if self.kind.emits_pairs:
                of_other = self.kind.inputs_of[1 - at].columns
                nulls = [pa.nulls(n, each.result_type) for each in of_other]
                columns = [*nulls, *columns] if at else [*columns, *nulls]
            if n:
                whole = pa.Table.from_batches([self._batch(part.keys, columns)])
                yield from whole.to_batches(max_chunksize=ROWS_PER_CELL)

    def _batch(self, keys: list[pa.Array], columns: list[Field]) -> pa.RecordBatch:
        batch_ids = pa.array(np.full(len(keys[0]), self.batch_id))
        arrays = [*keys, *map(to_arrow, columns), batch_ids]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
