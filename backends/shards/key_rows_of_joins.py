"""The rows of one key that a join has in state, by input."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.keys import Keys, are_equal, take_keys
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.state_rows_of_joins import SIDES
from idlestate.retention.policy import FOREVER_MS, Policies
from idlestate.retention.rules import Reason, is_due

Ints = npt.NDArray[np.int64]
NO_PARTNER = "no_partner"
"""Why a row ends whose last partner can no longer come; otherwise, the rule of the policy."""


@dataclass(frozen=True, slots=True)
class SideRows:
    """Rows of a key in state, of one input; times in ms, None where there is none.

    Attributes:
        rows: how many there are.
        overdue: those of them that the next batch removes.
        first_ms, last_ms: the event times of the oldest and the newest.
        next_end_ms: when the first of them ends; None: never.
        last_end_ms: when the last of them ends; None: never.
        reason: why the last of them ends: `idle`, `ttl`, `lifetime` or `no_partner`.
    """

    rows: int
    overdue: int
    first_ms: int
    last_ms: int
    next_end_ms: int | None
    last_end_ms: int | None
    reason: str | None


def rows_of_key(
    table: ShardTable, hashes: Ints, key: Keys, policies: Policies, now_ms: int
) -> dict[str, SideRows]:
    """The rows of a key by input, `left` and `right`; an input without rows is left out.

    Args:
        table: of a join.
        hashes, key: the key, of one row.
        policies: of left and of right rows.
        now_ms: the operator's time.
    """
    found, tables = {}, table.spec.open_lives(policies)
    for side, (name, policy) in zip(SIDES, tables.items(), strict=True):
        runs = table.tables[name]
        positions, rows = runs.between(hashes, hashes)
        rows = rows.take(~runs.are_swept(positions, rows))
        same = are_equal(rows.keys, take_keys(key, np.zeros(len(rows), dtype=np.int64)))
        lives = rows.lives.take(same)
        if not len(lives):
            continue
        ends, end_ms, t_ms = lives.ends(policy), lives.due_ms(policy), lives.written_at_ms
        last = int(end_ms.argmax())
        by_policy = ends.deadline_ms[last] == end_ms[last]
        reason = Reason(int(ends.reason[last])).label if by_policy else NO_PARTNER
        found[side] = SideRows(
            rows=len(lives),
            overdue=int(is_due(end_ms, now_ms).sum()),
            first_ms=int(t_ms.min()),
            last_ms=int(t_ms.max()),
            next_end_ms=_end(end_ms.min()),
            last_end_ms=_end(end_ms.max()),
            reason=None if end_ms[last] == FOREVER_MS else reason,
        )
    return found


def _end(end_ms: np.int64) -> int | None:
    return None if end_ms == FOREVER_MS else int(end_ms)
