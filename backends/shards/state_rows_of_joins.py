"""The rows of a join in state as a table: the columns of `read_state`."""

import pyarrow as pa

from idlestate.backends.runs.fields import to_arrow
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.sweeps import timed
from idlestate.backends.shards.changelog_rows import to_timestamps
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.stream_join import JoinInput, StreamJoin
from idlestate.retention.policy import Policies, Policy

JOIN_SIDE = "join_side"
SIDES = ("left", "right")


def some_rows(
    table: ShardTable, policies: Policies, since: int, most_rows: int
) -> tuple[pa.Table, int | None]:
    """Some rows of both inputs: keys, `join_side` (`left` or `right`), the columns of both inputs,
    `created_at` (the row's time) and `deadline` (UTC timestamps); and the hash to continue from.

    Args:
        table: the table of a join.
        policies: the policies of left and right rows.
        since, most_rows: as in `Runs.open_rows`, per input.
    """
    kind = table.spec.kind
    assert isinstance(kind, StreamJoin)
    found = [table.tables[of.table].open_rows(since, most_rows) for of in kind.inputs_of]
    following = min((upto for _, upto in found if upto is not None), default=None)
    parts = []
    for at, (of, (rows, _)) in enumerate(zip(kind.inputs_of, found, strict=True)):
        here = rows if following is None else rows.take(rows.hashes < following)
        parts.append(_shown(table, here, at, of, policies[at]))
    return pa.concat_tables(parts), following


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
