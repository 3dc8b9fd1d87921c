"""Changes to the times to live of a function's states.

If all states of a life expire, its row stores when the last one does (`wakes`), which depends on
their times to live. So the record of a shard stores the times to live in force. The first batch
with different ones reads every row under the new ones and rewrites it:

- Expired values are dropped. They stay expired, even if the time to live is now longer or removed.
- `wakes` is computed from what remains, so a sweep finds the lives that have now ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.runs.table_schema import Column, TableSchema
from idlestate.backends.shards.function_state import FunctionState, first_timers_ms
from idlestate.backends.shards.function_state_columns import ONE_VALUE, StateColumns
from idlestate.backends.shards.stored_ttls import StoredTtl, StoredTtls
from idlestate.retention.policy import FOREVER_MS
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.ttl import expires_ms, horizon_ms

Ints = npt.NDArray[np.int64]


def ttls_of(kind: FunctionState, schema: TableSchema, ttls_ms: Mapping[str, int]) -> StoredTtls:
    """The times to live in force.

    Args:
        kind: the states.
        schema: the columns of lives.
        ttls_ms: times to live by state name.
    """
    found = {}
    for state, columns in kind.split(schema.columns):
        has_stamps = state.stamped and state.kind in ONE_VALUE
        stamps = columns[-1].id if has_stamps else None
        found[state.id] = StoredTtl(ttls_ms.get(state.name, FOREVER_MS), stamps)
    return StoredTtls(found if ttls_ms else {})


def under_ttls(lives: Runs, kind: FunctionState, before: StoredTtls, now: StoredTtls) -> Runs:
    """Lives as they are read under times to live that differ from the stored ones."""
    if not before.changes(now):
        return lives
    return lives.with_revision(ChangedTtls(kind, lives.schema, before, now))


@dataclass(frozen=True)
class ChangedTtls:
    """See `idlestate.backends.runs.run.Revision`: rows of lives after a change.

    Attributes:
        kind: the states now.
        today: the columns of lives now.
        before, now: the times to live.
    """

    kind: FunctionState
    today: TableSchema
    before: StoredTtls
    now: StoredTtls

    @cached_property
    def schema(self) -> TableSchema:
        """See `Revision`: the current columns, and the stamps of values without a time to live."""
        columns: list[Column] = []
        for state, own in self.kind.split(self.today.columns):
            columns += own
            if (stamps := self._lost_stamps(state)) is not None:
                columns.append(Column(stamps, pa.nulls(1, pa.int64())))
        return replace(self.today, columns=(*columns, *self.today.columns[-2:]))

    @cached_property
    def extras(self) -> frozenset[str]:
        """See `Revision`."""
        split = self.kind.split(self.today.columns)
        return frozenset({"wakes"} | {f"{each.id}?" for _, columns in split for each in columns})

    def revised(self, rows: Rows) -> Rows:
        """See `Revision`."""
        written_ms = rows.lives.written_at_ms
        ends_ms, payload = np.full(len(rows), NEVER_MS), list[Field]()
        rest: Sequence[Field] = rows.payload
        for state in self.kind.states:
            is_lost = self._lost_stamps(state) is not None
            stored = replace(state, stamped=state.stamped or is_lost)
            fields, rest = rest[: len(stored.columns)], rest[len(stored.columns) :]
            fields = stored.since(fields, written_ms, self._horizon_ms(state))
            latest_ms = stored.latest_ms(fields, written_ms)
            ends_ms = np.maximum(ends_ms, self._ends_ms(state, latest_ms))
            payload += fields[:-1] if is_lost else fields
        wakes_ms = first_timers_ms(rest)
        if self.now.of_states:
            wakes_ms = np.where(wakes_ms < FOREVER_MS, wakes_ms, ends_ms)
        lives = replace(rows.lives, wakes_at_ms=wakes_ms)
        return replace(rows, lives=lives, payload=[*payload, *rest])

    def _lost_stamps(self, state: StateColumns) -> str | None:
        """The stamp column of a value that no longer has a time to live."""
        before = self.before.of_states.get(state.id)
        return None if before is None or state.stamped else before.stamps

    def _horizon_ms(self, state: StateColumns) -> int:
        """Values with stamps up to this had expired before the change."""
        before = self.before.of_states.get(state.id)
        if before is None or before.ttl_ms == FOREVER_MS:
            return NEVER_MS
        return max(horizon_ms(before.ttl_ms, self.before.swept_ms), NEVER_MS)

    def _ends_ms(self, state: StateColumns, latest_ms: Ints) -> Ints:
        """When contents expire; `NEVER_MS` where there is no content."""
        ttl_ms = self.now.of_states[state.id].ttl_ms if self.now.of_states else FOREVER_MS
        ends_ms = FOREVER_MS if ttl_ms == FOREVER_MS else expires_ms(ttl_ms, latest_ms)
        return np.where(latest_ms == NEVER_MS, NEVER_MS, ends_ms)
