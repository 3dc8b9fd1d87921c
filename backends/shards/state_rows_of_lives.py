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
from idlestate.retention.policy import Policy


def life_columns(spec: TableSpec, rows: Rows, policy: Policy) -> pa.Table:
    """Lives as a table: keys, of windows `window_start` and `window_end`, aggregates, `created_at`
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
    columns |= {
        "created_at": to_timestamps(shown_created_ms(spec, lives)),
        "written_at": to_timestamps(lives.written_at_ms),
        "read_at": to_timestamps(lives.read_at_ms),
        "armed_at": to_timestamps(lives.armed_at_ms),
        "last_access": to_timestamps(lives.last_access_ms(policy)),
        "cleanup_at": to_timestamps(lives.cleanup_at_ms(policy)),
        "deadline": to_timestamps(ends.deadline_ms),
        "reason": REASONS.take(pa.array(ends.reason)),
    }
    return pa.table(columns)
