"""The rows of a join in state as a table: the columns of `read_state`."""

from collections.abc import Iterator

import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.fields import to_arrow
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.sweeps import timed
from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.backends.shards.changelog_rows import to_timestamps
from idlestate.backends.shards.shard_record import OPEN
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.stream_join import JoinInput, StreamJoin
from idlestate.retention.policy import Policies, Policy

JOIN_SIDE = "join_side"
SIDES = ("left", "right")


def rows_in_state(table: ShardTable, policies: Policies) -> Iterator[pa.Table]:
    """The rows of both inputs, some 260,000 at a time: keys, `join_side` (`left` or `right`), the
    columns of both inputs, `created_at` (the row's time) and `deadline` (UTC timestamps).

    Args:
        table: of a join.
        policies: of left and of right rows.
    """
    kind = table.spec.kind
    assert isinstance(kind, StreamJoin)
    for at, of in enumerate(kind.inputs_of):
        runs = table.current if of.table == OPEN else table.others[of.table]
        since: int | None = LOWEST_HASH
        while since is not None:
            rows, since = runs.open_rows(since, MergePolicy().segment_rows)
            yield _shown(table, rows, at, of, policies[at])


def _shown(table: ShardTable, rows: Rows, at: int, of: JoinInput, policy: Policy) -> pa.Table:
    n, payload = len(rows), rows.payload[int(of.counts_matches) :]
    own = {each.name: to_arrow(field) for each, field in zip(of.columns, payload, strict=True)}
    columns = dict(zip(table.spec.key_names, rows.keys, strict=True))
    columns[JOIN_SIDE] = pa.array([SIDES[at]] * n, pa.string())
    for name, kind in table.spec.kind.results:
        columns[name] = own[name] if name in own else pa.nulls(n, kind)
    columns["created_at"] = to_timestamps(rows.lives.written_at_ms)
    columns["deadline"] = to_timestamps(rows.lives.due_ms(timed(policy)))
    return pa.table(columns)
