"""The state of a shard as a table: lives, or the rows of both inputs for a join."""

from collections.abc import Iterator

import pyarrow as pa

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.backends.shards import state_rows_of_joins
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.retention.policy import Policies


def rows_in_state(table: ShardTable, policies: Policies) -> Iterator[pa.Table]:
    """All rows, in order of hash and about 260,000 at a time."""
    since: int | None = LOWEST_HASH
    while since is not None:
        rows, since = some_rows(table, policies, since, MergePolicy().segment_rows)
        yield rows


def some_rows(
    table: ShardTable, policies: Policies, since: int, most_rows: int
) -> tuple[pa.Table, int | None]:
    """Some rows, and the hash to continue from, as in `Runs.open_rows`.

    Args:
        table: the shard.
        policies: the policies in force.
        since: the lowest hash; `LOWEST_HASH` at first.
        most_rows: about how many rows.
    """
    if table.spec.is_of_sides:
        return state_rows_of_joins.some_rows(table, policies, since, most_rows)
    return table.some_lives(policies[0], since, most_rows)
