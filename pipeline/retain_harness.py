"""`retain` batch by batch in the calling process, for tests of jobs: no JVM and no checkpoint.

Rows take the same path as in a query: they are marked, packed, applied to a shard and unpacked. The
marks and the watermark, which Spark computes in a query, are computed here.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeAlias, TypeVar

import pyarrow as pa

from idlestate.backends.runs.run import Run
from idlestate.backends.runs.run_codec import run_in_memory
from idlestate.backends.runs.segment import Segment
from idlestate.backends.runs.table_runs import Next
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.backends.shards.accumulator import Accumulator
from idlestate.backends.shards.aggregation import Aggregation
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.late_and_rejected_rows import failed_as_json
from idlestate.backends.shards.next_record import open_table
from idlestate.backends.shards.operator_kind import OperatorKind
from idlestate.backends.shards.row_counts import RowsByInput, of_texts, total
from idlestate.backends.shards.shard_batch import advance
from idlestate.backends.shards.shard_record import RunRef, ShardRecord
from idlestate.backends.shards.state_rows import rows_in_state
from idlestate.errors import RefusedError
from idlestate.pipeline.arguments import Arguments
from idlestate.pipeline.changelog_unpacker import unpacked_cells
from idlestate.pipeline.marked_table import marked_table
from idlestate.pipeline.operator_checks import Columns, Marking, checked_operator
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.pack import pack
from idlestate.pipeline.retain import aggregation_of
from idlestate.pipeline.spark.spark_types import arrow_schema, spark_schema_of
from idlestate.pipeline.task_batch import TaskBatch
from idlestate.retention.durations import Duration
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.policy_version import PolicyVersion
from idlestate.retention.windows import Windows
from idlestate.timers.clock import FakeClock

HARNESS = "harness"
Rows: TypeAlias = Sequence[Mapping[str, Any]] | pa.Table
"""Rows of one input, as dicts or as an Arrow table."""
Events = TypeVar("Events")
"""The rows of a batch: of one input, or of two."""


@dataclass(frozen=True)
class Input:
    """An input of a harness: its columns, and how its rows are marked and packed."""

    schema: pa.Schema
    spec: OperatorSpec
    marking: Marking

    def table(self, rows: Sequence[Mapping[str, Any]] | pa.Table) -> pa.Table:
        """Rows as a table.

        Raises:
            RefusedError: they do not fit the schema.
        """
        names = self.schema.names
        given = [rows.column_names] if isinstance(rows, pa.Table) else _dicts(rows)
        unknown = sorted(map(str, set[object]().union(*given) - set(names)))
        if unknown:
            raise RefusedError(
                f"column {', '.join(unknown)} not found; available: {', '.join(names)}"
            )
        try:
            if isinstance(rows, pa.Table):
                return rows.select(names).cast(self.schema)
            return pa.Table.from_pylist([dict(row) for row in rows], self.schema)
        except (pa.ArrowException, KeyError, OverflowError, TypeError, ValueError) as error:
            raise RefusedError(f"the rows do not fit the schema: {error}") from error


def _dicts(rows: Any) -> list[Mapping[str, Any]]:
    found: list[Any] = list(rows) if isinstance(rows, Iterable) else [rows]
    for row in found:
        if not isinstance(row, Mapping):
            raise RefusedError(f"{row!r} is not a row; pass a list of dicts, or an Arrow table")
    return found


class OperatorHarness(Generic[Events]):
    """One operator of some kind, fed batch by batch."""

    def __init__(
        self,
        schema: pa.Schema | Mapping[str, pa.DataType],
        kind_of: Callable[[Columns], OperatorKind],
        clock: FakeClock | None,
        bind: Callable[[OperatorSpec], OperatorSpec] | None = None,
        **arguments: Any,
    ) -> None:
        """A new operator. `bind` sets a step that keeps nothing from earlier batches; other
        arguments as in `checked_operator`.
        """
        columns = arrow_schema(schema)
        spec, marking = checked_operator(
            Arguments(HARNESS, columns.names, ignores_case=True),
            spark_schema_of(columns),
            kind_of,
            uid=HARNESS,
            shards=1,
            place={"runs": None},
            **arguments,
        )
        self._bind = bind
        spec = spec if bind is None else bind(spec)
        self._begin([Input(columns, spec, marking)], clock)

    def _begin(self, inputs: Sequence[Input], clock: FakeClock | None) -> None:
        if not isinstance(clock, FakeClock | None):
            raise RefusedError(f"clock {clock!r} is not valid; pass a FakeClock")
        self._inputs, self.clock = list(inputs), clock
        if clock is None and not self._spec.is_event_time:
            self.clock = FakeClock()
        self._record = ShardRecord(HARNESS, 0)
        self._runs = _RunsInMemory()
        self._batch_id = 0
        self._watermark_ms = 0

    @property
    def _spec(self) -> OperatorSpec:
        return self._inputs[0].spec

    def batch(self, rows: Events) -> list[dict[str, Any]]:
        """Process a batch; return its output rows, and with `rejects` its reject rows.

        In event time, a batch without rows closes what is due, like Spark's batch without data
        after the watermark has moved. In processing time it does nothing: Spark runs no such batch.

        Args:
            rows: dicts, in which missing columns are null, or an Arrow table; for two inputs,
                pairs of `left` or `right` and a dict.

        Raises:
            RefusedError: rows do not fit the schema, or a sum overflows its type.
        """
        return self._take(self._tables(rows))

    def _tables(self, rows: Events) -> list[pa.Table]:
        """The rows of each input."""
        return [self._inputs[0].table(rows)]

    def _take(self, tables: Sequence[pa.Table]) -> list[dict[str, Any]]:
        if not any(map(len, tables)) and not self._spec.is_event_time:
            return []
        task = TaskBatch(
            BatchTimes(self._batch_id, self._watermark_ms, self._now_ms()),
            self._spec.table,
            [0],
            PolicyVersion(1, 0, self._spec.policy, self._spec.right_policy),
            0,
            None,
        )
        packets, rejected, counts = [], [], []
        for table, each in zip(tables, self._inputs, strict=True):
            marked = marked_table(table, each.spec, each.marking).to_batches()
            for cells in pack(iter(marked), each.spec, task):
                packets += cells.column("packet").to_pylist()
                rejected += cells.column("rejected").drop_null().to_pylist()
                counts.append(cells.column("counts")[0].as_py())
        advanced = advance(
            self._spec.table,
            self._record,
            self._runs,
            packets,
            of_texts(counts),
            task.times,
            task.in_force,
            self._spec.operator_step,
        )
        before, self._record = self._record, advanced.record
        self._batch_id += 1
        self._watermark_ms = max(self._watermark_ms, self._reached_ms(of_texts(counts), before))
        rejected += failed_as_json(advanced.failed, task.times.batch_id)
        changes = unpacked_cells(advanced.cells, rejected, self._spec)
        return [row for part in changes for row in part.to_pylist()]

    def _reached_ms(self, counts: RowsByInput, before: ShardRecord) -> int:  # noqa: ARG002
        """The watermark after a batch with these rows."""
        return total(counts).highest_ms - self._spec.delay_ms - 1

    def finish(self) -> list[dict[str, Any]]:
        """End bounded input; return the change rows.

        This runs a batch without rows. With `in_order`, it runs another one, in which the watermark
        is the highest event time.
        """
        nothing = [each.table([]) for each in self._inputs]
        rows = self._take(nothing)
        if self._spec.table.in_order:
            self._watermark_ms = max(self._watermark_ms, self._record.rows.highest_ms)
            rows += self._take(nothing)
        return rows

    def anew(self) -> Self:
        """The same operator without any batches.

        Raises:
            RefusedError: this one has processed batches, so its clock may have moved.
        """
        if self._batch_id:
            raise RefusedError("this harness has seen batches; pass a new one")
        other = copy.copy(self)
        clock = self.clock
        other._begin(self._inputs, None if clock is None else FakeClock(clock.now_ms()))  # noqa: SLF001 - of its own class
        other.restart()
        return other

    def restart(self) -> None:
        """Continue as a query does after a restart: a function keeps only its states."""
        if self._bind is not None:
            self._inputs = [replace(each, spec=self._bind(each.spec)) for each in self._inputs]

    @property
    def key_names(self) -> list[str]:
        """The columns that identify keys in output rows."""
        return [name for name, _ in self._spec.table.shown_keys]

    @property
    def is_of_sessions(self) -> bool:
        """Whether lives are session windows, whose early results contain an end that may move."""
        window = self._spec.table.window
        return window is not None and window.is_session

    @property
    def late_rows(self) -> int:
        """The number of late rows so far."""
        return self._record.rows.late

    def lives(self) -> list[dict[str, Any]]:
        """The open lives, with the columns of `read_state`."""
        table = open_table(self._spec.table, self._record, self._runs)
        policies = self._spec.policy, self._spec.right_policy or self._spec.policy
        found = pa.concat_tables(rows_in_state(table, policies))
        return list(found.to_pylist())

    def _now_ms(self) -> int:
        if self.clock is None:
            return FOREVER_MS - self._spec.max_ahead_ms
        return self.clock.now_ms()


class RetainHarness(OperatorHarness[Rows]):
    """One `retain` operator, fed batch by batch.

    It emits the same change rows as a query on the same batches. As in Spark, the watermark of a
    batch comes from the batches before it.

    Args:
        schema: the input's columns and their Arrow types; timestamps are
            `pa.timestamp("us", "UTC")`.
        key, aggregates, event_time, delay, policy, config, order, read_when, max_ahead,
            min_event_time, malformed, null_key, rejects, window, fire_after, in_order: as for
            `retain`, with columns by name and aggregates as text.
        clock: gives the time of each batch. In processing time, all rows of a batch have this time;
            the default is `FakeClock(0)`. In event time, `max_ahead` counts from it; without a
            clock no row is too far ahead.

    Raises:
        RefusedError: schema or arguments are not valid; the text says how to fix it.
        ConfigError: the policy file is invalid.
    """

    def __init__(
        self,
        schema: pa.Schema | Mapping[str, pa.DataType],
        *,
        key: Sequence[str] | str,
        aggregates: Mapping[str, str | Accumulator],
        event_time: str | None = None,
        delay: Duration = "0s",
        policy: str | Policy | None = None,
        config: str | Path | None = None,
        order: Sequence[str] | str = (),
        read_when: str | None = None,
        max_ahead: Duration = "1h",
        min_event_time: str = "1970-01-02",
        malformed: str | None = None,
        null_key: str = "keep",
        rejects: bool = False,
        window: Windows | None = None,
        fire_after: Duration | None = None,
        in_order: bool | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        def kind_of(columns: Columns) -> Aggregation:
            return aggregation_of(columns, aggregates, {})

        super().__init__(
            schema,
            kind_of,
            clock,
            key=key,
            event_time=event_time,
            delay=delay,
            policy=policy,
            config=config,
            order=order,
            read_when=read_when,
            max_ahead=max_ahead,
            min_event_time=min_event_time,
            malformed=malformed,
            null_key=null_key,
            rejects=rejects,
            window=window,
            fire_after=fire_after,
            in_order=in_order,
        )


class _RunsInMemory:
    """A `RunPlace` in memory: the runs of one shard."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def write(self, table: str, segments: Iterator[Segment], following: Next) -> tuple[RunRef, Run]:
        schema = following.before.schema
        run = run_in_memory(segments, schema, following.policy, following.batch_id)
        ref = RunRef(f"{following.batch_id}-{table}", following.batch_id, len(run), 0)
        self._runs[ref.name] = run
        return ref, run

    def read(self, table: str, ref: RunRef, schema: TableSchema) -> Run:  # noqa: ARG002
        return self._runs[ref.name]

    def keep(self, table: str, runs: Mapping[RunRef, Run]) -> None:
        """Drop all other runs."""
        of_table = {name for name in self._runs if name.endswith(f"-{table}")}
        for name in of_table - {ref.name for ref in runs}:
            del self._runs[name]
