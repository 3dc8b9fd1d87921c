"""Change rows: the output of a batch.

Columns of a change row: the key columns; with windows, `window_start` and `window_end` (UTC
timestamps); the aggregates under their names; `change` (`update` | `expire`); `created_at`,
`last_access` and `expired_at` (UTC timestamps in microseconds, whole milliseconds); `reason`
(`idle` | `ttl` | `lifetime`); `batch_id` (int64).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.rows import Rows
from idlestate.backends.shards.emitted_rows import EmitsRows, record_schema
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.added_columns import CHANGE_COLUMNS, EXPIRE, UPDATE
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS, Ends, Reason

TIMESTAMP = pa.timestamp("us", tz="UTC")
_LAST_MS = FOREVER_MS // 1000
"""The last millisecond that a microsecond timestamp can represent."""
REASONS = pa.array([reason.label for reason in Reason])
_CHANGES = pa.array([UPDATE, EXPIRE])
_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)


@dataclass(frozen=True, slots=True)
class Changes:
    """Lives to emit: each as an update or, where `is_expire`, as an expiry."""

    rows: Rows
    ends: Ends
    is_expire: npt.NDArray[np.bool_]


def change_schema(spec: TableSpec) -> pa.Schema:
    """The Arrow schema of change rows, or of emitted rows for kinds that do not emit lives."""
    if spec.kind.output is not None:
        return spec.kind.output
    if isinstance(spec.kind, EmitsRows):
        return record_schema(spec.shown_keys, spec.kind)
    types = (pa.string(), TIMESTAMP, TIMESTAMP, TIMESTAMP, pa.string(), pa.int64())
    added = zip(CHANGE_COLUMNS, types, strict=True)
    return pa.schema([*spec.shown_keys, *spec.kind.results, *added])


def of_batch(changes: _Rows, spec: TableSpec, batch_id: int) -> _Rows:
    """Change rows with the batch number in place of the table's version. Output defined by the
    operator itself has neither.
    """
    if spec.kind.output is not None:
        return changes
    at = changes.schema.get_field_index("batch_id")
    return changes.set_column(at, "batch_id", pa.repeat(pa.scalar(batch_id), len(changes)))


def change_rows(
    spec: TableSpec,
    parts: Sequence[Changes],
    silent_keys: Sequence[pa.Array],
    policy: Policy,
    batch_id: int,
) -> pa.Table:
    """Change rows of lives, and rows with nulls for keys that were read and have no open life."""
    schema = change_schema(spec)
    batches = [_rows(spec, schema, part, policy, batch_id) for part in parts if len(part.rows)]
    n = len(silent_keys[0])
    if n:
        nulls = {name: pa.nulls(n, schema.field(name).type) for name in schema.names}
        nulls |= dict(zip(spec.key_names, silent_keys, strict=True))
        nulls["change"] = _CHANGES.take(pa.array(np.zeros(n, dtype=np.int8)))
        nulls["batch_id"] = pa.array(np.full(n, batch_id))
        batches.append(pa.RecordBatch.from_pydict(nulls, schema=schema))
    return pa.Table.from_batches(batches, schema)


def _rows(
    spec: TableSpec, schema: pa.Schema, part: Changes, policy: Policy, batch_id: int
) -> pa.RecordBatch:
    rows, is_expire = part.rows, part.is_expire
    reasons = REASONS.take(pa.array(np.where(is_expire, part.ends.reason, int(Reason.OPEN))))
    return pa.RecordBatch.from_arrays(
        [
            *shown_keys(spec, rows),
            *spec.kind.result(rows.payload),
            _CHANGES.take(pa.array(is_expire.astype(np.int8))),
            to_timestamps(shown_created_ms(spec, rows.lives)),
            to_timestamps(rows.lives.last_access_ms(policy)),
            to_timestamps(np.where(is_expire, part.ends.deadline_ms, NEVER_MS)),
            reasons,
            pa.array(np.full(len(rows), batch_id)),
        ],
        schema=schema,
    )


def shown_keys(spec: TableSpec, rows: Rows) -> list[pa.Array]:
    """The columns of lives that precede their results."""
    if spec.window is None:
        return rows.keys
    bounds = spec.window.bounds_ms(rows.lives.created_at_ms, rows.lives.written_at_ms)
    return [*rows.keys[: len(spec.given_keys)], *map(to_timestamps, bounds)]


def shown_created_ms(spec: TableSpec, lives: Lives) -> npt.NDArray[np.int64]:
    """When lives began; for windows, the start of the window."""
    if spec.window is None:
        return lives.created_at_ms
    return spec.window.bounds_ms(lives.created_at_ms, lives.written_at_ms)[0]


def to_timestamps(times_ms: npt.NDArray[np.int64]) -> pa.Array:
    """Milliseconds as UTC timestamps; null for values beyond timestamps, such as `FOREVER_MS`."""
    mask = (times_ms > _LAST_MS) | (times_ms < -_LAST_MS)
    if not mask.any():
        return pa.array(times_ms * 1000).view(TIMESTAMP)
    return pa.array(np.where(mask, 0, times_ms) * 1000, mask=mask).view(TIMESTAMP)
