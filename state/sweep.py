"""Sweeps: removal of expired values within a budget per call."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_arrays import Positions
from idlestate.state.table import Removed, Table, Walk
from idlestate.state.ttl_layer import Ttl


@dataclass(slots=True)
class SweepReport:
    """The report of one call.

    Attributes:
        seen: number of visited keys; on RocksDB, of rows.
        removed: number of removed values, list elements and map entries.
        done: whether the end of every state was reached.
        expired: with `records`, the removed values: for each state a table of `key`, `namespace`,
            `user_key` (maps only), `value`, `written_at_ms`. If a string in a column has half a
            surrogate pair, which UTF-8 cannot represent, all strings of that column are binary;
            decode them with `bytes.decode("utf-8", "surrogatepass")`.
    """

    seen: int = 0
    removed: int = 0
    done: bool = False
    expired: dict[str, pa.Table] = field(default_factory=dict)


class TableSweep:
    """One walk over one state.

    Attributes:
        done: whether it has reached the end.
    """

    def __init__(self, name: str, table: Table, ttl: Ttl) -> None:
        """Start at the beginning."""
        self.done = False
        self._name, self._table, self._ttl = name, table, ttl
        self._walk: Walk = table.walk()

    def go_on(self, now_ms: int, budget: int, report: SweepReport, *, records: bool) -> None:
        """Visit at most `budget` more keys."""
        removed = Removed.nothing() if records else None
        visit = self._walk.visit(budget, self._ttl.horizon_ms(now_ms), removed)
        report.seen += visit.seen
        report.removed += visit.removed
        self.done = visit.done
        if removed is not None:
            report.expired[self._name] = self._table_of(removed)

    def _table_of(self, removed: Removed) -> pa.Table:
        keys, layout = self._table.key_layout, self._table.layout
        columns = {
            "key": _column(removed.keys, keys.key.kind),
            "namespace": _column(removed.namespaces, keys.namespace.kind),
        }
        if layout.user_key is not None:
            columns["user_key"] = _column(removed.user_keys, layout.user_key.kind)
        values = [value for value, _ in removed.stored]
        columns["value"] = _column(values, layout.value.kind)
        columns["written_at_ms"] = pa.array([stamp for _, stamp in removed.stored], pa.int64())
        return pa.table(columns)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # the rows are removed already, so it must not fail
        return pa.array(list(map(_with_binary, values)), _kind_with_binary(kind))


def _with_binary(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, tuple | list):
        return tuple(map(_with_binary, value))
    return value


def _kind_with_binary(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(_kind_with_binary(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _kind_with_binary(field.type)) for field in kind])
    return kind


def expiry_times_ms(table: Table, ttl: Ttl) -> Positions:
    """When everything in a table expires or has expired: what a sweep at that time removes."""
    stamps: Positions = np.concatenate([np.zeros(0, dtype=np.int64), *table.stamps()])
    return ttl.expires_ms(stamps)
