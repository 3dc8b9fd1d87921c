"""Open lives as a table: the columns of `read_state` and of look-ups."""

import pyarrow as pa

from idlestate.backends.runs.rows import Rows
from idlestate.backends.shards.changelog_rows import (
    REASONS,
    shown_created_ms,
    shown_keys,
    to_timestamps,
)
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.added_columns import LIFE_COLUMNS
from idlestate.retention.policy import Policy


def life_columns(spec: TableSpec, rows: Rows, policy: Policy) -> pa.Table:
    """Lives as a table: keys, `window_start` and `window_end` for windows, aggregates, `created_at`
    ... `armed_at`, `last_access`, `cleanup_at`, `deadline` (UTC timestamps, null where there is
    none) and `reason`.
    """
    lives, ends = rows.lives, rows.lives.ends(policy)
    shown = shown_keys(spec, rows)
    columns: dict[str, pa.Array] = {
        name: column for (name, _), column in zip(spec.shown_keys, shown, strict=True)
    }
    names = [name for name, _ in spec.kind.results]
    columns |= dict(zip(names, spec.kind.result(rows.payload), strict=True))
    times_ms = (
        shown_created_ms(spec, lives),
        lives.written_at_ms,
        lives.read_at_ms,
        lives.armed_at_ms,
        lives.last_access_ms(policy),
        lives.cleanup_at_ms(policy),
        ends.deadline_ms,
    )
    added = (*map(to_timestamps, times_ms), REASONS.take(pa.array(ends.reason)))
    columns |= dict(zip(LIFE_COLUMNS, added, strict=True))
    return pa.table(columns)
