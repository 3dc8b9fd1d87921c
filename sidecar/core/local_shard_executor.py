"""Executes steps on shards whose runs are stored by this process."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from idlestate.backends.runs.compaction import MergePolicy, stagger
from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.runs.keys import find_distinct, take_keys
from idlestate.backends.runs.leaving_rows import first_end_ms, lives_of
from idlestate.backends.shards.changelog_rows import change_schema, of_batch
from idlestate.backends.shards.early_results import Showing, showing
from idlestate.backends.shards.emitted_rows import EmitsRecords
from idlestate.backends.shards.key_details import KeyDetails, details_of, shard_of
from idlestate.backends.shards.next_record import steps_of
from idlestate.backends.shards.packet_codec import KeptPacketError, PacketError
from idlestate.backends.shards.planned_removals import Horizon, added_up, horizons_of
from idlestate.backends.shards.shard_ranges import shard_bounds
from idlestate.backends.shards.shard_record import LIVES, ShardRecord
from idlestate.backends.shards.shard_table import Outcome, ShardTable
from idlestate.backends.shards.state_rows import some_rows
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.sums import SumOverflowError
from idlestate.retention.policy import Policies, Policy, TimeDomain
from idlestate.sidecar.core.expired_log import stage_rows
from idlestate.sidecar.core.segment_keys import is_segment, run_of, segment_key
from idlestate.sidecar.core.shard_executor import Edit, SentRows, Shards, StepParameters, StepResult
from idlestate.sidecar.core.shard_tables import ShardTables
from idlestate.sidecar.core.table_edits import edit_steps, edited
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DamagedDirectoryError, DoesNotFitError, GoneError
from idlestate.sidecar.protocol.input_rows import fit_rows, fit_write, read_rows
from idlestate.sidecar.protocol.transfers import CHUNK_BYTES, Stage, in_chunks, stream_of
from idlestate.sidecar.stores.store import Store

_MERGE = MergePolicy()
_LATE = MergePolicy(space=3)
"""Shards this sparse are those that `Sweeper.compact` has not reached yet."""
_CLOSE = MergePolicy(dense=1e9, space=1e9)
"""For sweeps, and for steps on shards that sweeps emptied: compaction removes dead rows later."""


class LocalShardExecutor:
    """`ShardExecutor` in this process.

    Args:
        store: the store of the runs.
        declaration: the operator.
        cache_bytes: the cache of its tables.
        stage: where packets arrive and update rows wait.
    """

    def __init__(
        self, store: Store, declaration: Declaration, cache_bytes: int, stage: Stage
    ) -> None:
        self._store = store
        self._uid = declaration.uid
        self._is_event_time = declaration.time == TimeDomain.EVENT.value
        self._declaration = declaration
        self._spec = declaration.spec()
        self._stage = stage
        self._nothing = change_schema(self._spec).empty_table()
        self.tables = ShardTables(store, self._uid, self._spec, cache_bytes)

    def prepare(
        self, handle: str, ranges: Sequence[int], shards: Shards, parameters: StepParameters
    ) -> tuple[dict[int, StepResult], tuple[int, ...]]:
        """See `ShardExecutor`; there is only one range."""
        packets = self._stage.packets(handle) if ranges else {}
        stepped: dict[int, StepResult] = {}
        updates = [self._nothing]
        try:
            merges = _merges(shards)
            at_ms = None if self._is_event_time else parameters.t_ms
            for at, shard in shards.items():
                steps = steps_of(self._spec, packets.get(at, ()), at_ms)
                merge = replace(merges[at], stagger=stagger(at))
                shows = showing(self._spec, shard.shown_ms, shard.newest_ms)
                stepped[at], rows = self._step(
                    shard, at, steps, parameters, parameters.t_ms, merge, showing=shows
                )
                updates.append(rows)
        except (PacketError, SumOverflowError) as error:
            raise DoesNotFitError(f"operator {self._uid!r}: {error}") from error
        except KeptPacketError as error:
            raise self._unreadable(error) from error
        reply = tuple(in_chunks(pa.concat_tables(updates)))
        self._stage.reply(handle, reply)
        return stepped, (len(reply),)

    def take(
        self,
        handle: str,
        ranges: Sequence[int],
        shards: Shards,
        keys: Mapping[int, Sequence[str]],
    ) -> dict[int, StepResult]:
        """See `ShardExecutor`; there is only one range."""
        sent = self._stage.packets(handle) if ranges else {}
        taken = {}
        for at, shard in shards.items():
            named, values = keys.get(at, ()), sent.get(at, ())
            prefix = segment_key(self._uid, at, "", 0).rpartition("/")[0]
            if len(named) != len(values) or not all(key.startswith(prefix) for key in named):
                raise DoesNotFitError(f"operator {self._uid!r}: values of other keys were sent")
            taken[at] = StepResult(shard, (), dict(zip(named, values, strict=True)))
        self._stage.close(handle)
        return taken

    def edit(self, kind: str, sent: SentRows) -> Edit:
        """See `ShardExecutor`."""
        if sent.handle is not None:
            raise GoneError("this sidecar has one range now: send the rows themselves")
        rows = read_rows(self._uid, sent.data)
        return _Edit(kind, fit_write(self._declaration, self._spec, kind, rows), self._edited)

    def cuts(self, shard: ShardRecord, at: int, parameters: StepParameters, rows: int) -> list[int]:
        """See `ShardExecutor`."""
        current = self.tables.table(shard, at).current
        due = current.due(parameters.policy, parameters.t_ms, np.zeros(0, dtype=np.int64))
        ends_ms = np.sort(lives_of(current, due).ends(parameters.policy).deadline_ms)
        return [*dict.fromkeys(ends_ms[rows:-1:rows].tolist()), parameters.t_ms]

    def first_ends(self, shards: Shards, parameters: StepParameters) -> dict[int, int]:
        """See `ShardExecutor`."""
        found = {}
        for at, shard in shards.items():
            tables = self.tables.table(shard, at).tables
            lives = self._spec.open_lives(parameters.of_sides)
            ends_ms = [
                first_end_ms(tables[name], each, parameters.t_ms) for name, each in lives.items()
            ]
            first_ms = min((each for each in ends_ms if each is not None), default=None)
            if first_ms is not None:
                found[at] = first_ms
        return found

    def close(self, shard: ShardRecord, at: int, parameters: StepParameters) -> StepResult:
        """See `ShardExecutor`."""
        steps = Steps.empty(self._spec)
        return self._step(shard, at, steps, parameters, parameters.t_ms, _CLOSE)[0]

    def merge(self, shard: ShardRecord, at: int, parameters: StepParameters) -> StepResult:
        """See `ShardExecutor`."""
        return self._step(shard, at, Steps.empty(self._spec), parameters, None, _MERGE)[0]

    def horizons(
        self, shards: Shards, policies: Policies, others: Policies, now_ms: int
    ) -> tuple[Horizon, ...]:
        """See `ShardExecutor`."""
        return added_up(
            horizons_of(self.tables.table(shard, at), shard, policies, others, now_ms)
            for at, shard in shards.items()
        )

    def look_up(self, keys: bytes, shards: Shards, policy: Policy) -> pa.Table:
        """See `ShardExecutor`."""
        spec = self._spec
        wanted = fit_rows(self._uid, read_rows(self._uid, keys), dict(spec.keys))
        columns = [wanted.column(name).combine_chunks() for name in spec.key_names]
        hashes = hash_keys(columns)
        first = find_distinct(hashes, columns).first
        hashes, columns = hashes[first], take_keys(columns, first)
        bounds = shard_bounds(hashes, self._declaration.shards).tolist()
        found = []
        for at, shard in shards.items():
            begin, stop = bounds[at], bounds[at + 1]
            if begin == stop or not shard.current.live:
                continue
            table = self.tables.table(shard, at)
            part = [column.slice(begin, stop - begin) for column in columns]
            rows, _ = table.current.look_up(hashes[begin:stop], part)
            found.append(table.shown_lives(table.current.take(rows[rows >= 0]), policy))
        return pa.concat_tables(found or [ShardTable.empty(spec).lives(policy)])

    def explain(self, key: bytes, shards: Shards, policies: Policies, now_ms: int) -> KeyDetails:
        """See `ShardExecutor`."""
        rows = fit_rows(self._uid, read_rows(self._uid, key), dict(self._spec.keys))
        if len(rows) != 1:
            raise DoesNotFitError(f"operator {self._uid!r}: ask for one key, not {len(rows)}")
        columns = [rows.column(name).combine_chunks() for name in self._spec.key_names]
        at = shard_of(columns, self._declaration.shards)
        table = self.tables.table(shards[at], at)
        try:
            return details_of(table, shards[at], columns, policies, now_ms)
        except KeptPacketError as error:
            raise self._unreadable(error) from error

    def lives(
        self, shard: ShardRecord, at: int, policies: Policies, since: int
    ) -> tuple[pa.Table, int | None]:
        """See `ShardExecutor`."""
        table, stored = self.tables.table(shard, at), [shard.table(name) for name in LIVES]
        rows, size = sum(each.rows for each in stored), sum(each.bytes for each in stored)
        most_rows = max(1, CHUNK_BYTES * rows // max(1, size))
        lives, following = some_rows(table, policies, since, most_rows)
        while lives.nbytes > 2 * CHUNK_BYTES and most_rows > 1:  # larger than most
            most_rows //= 2
            lives, following = some_rows(table, policies, since, most_rows)
        return lives, following

    def value(self, key: str) -> bytes | None:
        """See `ShardExecutor`."""
        return self._store.get(key)

    def forget(self, runs: Mapping[str, int]) -> None:
        """See `ShardExecutor`."""
        self.tables.forget(runs)

    def elsewhere(self, keys: Iterable[str]) -> Set[str]:  # noqa: ARG002
        """See `ShardExecutor`; all values are in the one store."""
        return frozenset()

    def remove(self, keys: Iterable[str]) -> None:
        """See `ShardExecutor`; they were removed with the record that named them."""

    def discard(self, stepped: Iterable[StepResult]) -> None:
        """See `ShardExecutor`; nothing was written."""
        self.tables.forget(
            run_of(key) for each in stepped for key in each.values if is_segment(key)
        )

    def _edited(
        self, kind: str, rows: pa.Table, shards: Shards, parameters: StepParameters
    ) -> dict[int, StepResult]:
        columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
        keys = [columns[name] for name in self._spec.key_names]
        try:
            steps = edit_steps(self._spec, kind, keys, columns, parameters.t_ms)
            return self._stepped_by(kind, steps, shards, parameters)
        except SumOverflowError as error:
            raise DoesNotFitError(f"operator {self._uid!r}: {error}") from error

    def _stepped_by(
        self, kind: str, steps: Steps, shards: Shards, parameters: StepParameters
    ) -> dict[int, StepResult]:
        parts = steps.slices(shard_bounds(steps.hashes, self._declaration.shards))
        touched = [at for at, part in enumerate(parts) if len(part)]
        if not shards.keys() >= set(touched):
            raise GoneError(f"operator {self._uid!r}: rows of shards that are elsewhere now")
        merges = _merges({at: shards[at] for at in touched})
        stepped = {}
        for at in touched:
            shard = shards[at]
            outcome = edited(
                self.tables.table(shard, at),
                kind,
                parts[at],
                parameters.policy,
                parameters.t_ms,
                parameters.version,
                merges[at],
            )
            stepped[at] = self._stepped(shard, at, outcome, parameters)[0]
        return stepped

    def _unreadable(self, error: KeptPacketError) -> DamagedDirectoryError:
        return DamagedDirectoryError(f"operator {self._uid!r}: {error}")

    def _step(
        self,
        shard: ShardRecord,
        at: int,
        steps: Steps,
        parameters: StepParameters,
        to_ms: int | None,
        merge: MergePolicy,
        showing: Showing | None = None,
    ) -> tuple[StepResult, pa.Table]:
        """Apply records to a shard, then close what is due at `to_ms` (None: nothing)."""
        table = self.tables.table(shard, at)
        outcome = table.apply(
            steps, parameters.policy, to_ms, parameters.version, merge, showing=showing
        )
        return self._stepped(shard, at, outcome, parameters, to_ms or 0)

    def _stepped(
        self,
        shard: ShardRecord,
        at: int,
        outcome: Outcome,
        parameters: StepParameters,
        to_ms: int | None = None,
    ) -> tuple[StepResult, pa.Table]:
        """The shard after an outcome, and the rows of the reply: rows that the query does not get
        from the log. With rows in order, no life ends between batches, so the reply contains all
        rows.
        """
        reached_ms = parameters.t_ms if to_ms is None else to_ms
        written = self.tables.write(shard, at, outcome, reached_ms, parameters.now_ms)
        changes = of_batch(outcome.changes, self._spec, parameters.batch_id)
        if isinstance(self._spec.kind, EmitsRecords):
            return StepResult(written.record, (), written.values), changes
        ends = pc.equal(changes.column("change"), "expire")
        expired = stage_rows(self._uid, at, self._spec, changes.filter(ends), written.values)
        if not self._spec.in_order:
            changes = changes.filter(pc.invert(ends))
        return StepResult(written.record, expired, written.values), changes


@dataclass(frozen=True, slots=True)
class _Edit:
    _kind: str
    _rows: pa.Table
    _edited: Callable[[str, pa.Table, Shards, StepParameters], dict[int, StepResult]]

    def rows(self) -> bytes:
        return stream_of(self._rows)

    def apply(self, shards: Shards, parameters: StepParameters) -> dict[int, StepResult]:
        return self._edited(self._kind, self._rows, shards, parameters)


def _merges(shards: Shards) -> dict[int, MergePolicy]:
    """The merge policies for the shards of a step.

    Shards that sweeps have emptied are left to `Sweeper.compact`, so that no step waits for it. If
    it does not keep up, the sparsest of them is rewritten.
    """
    emptied = {at: shard.current for at, shard in shards.items() if _is_sparse(shard, _MERGE)}
    late = [at for at in emptied if _is_sparse(shards[at], _LATE)]
    now = max(late, key=lambda at: emptied[at].rows - emptied[at].live, default=None)
    return {at: _CLOSE if at in emptied and at != now else _MERGE for at in shards}


def _is_sparse(shard: ShardRecord, merge: MergePolicy) -> bool:
    return merge.is_sparse(shard.current.rows, shard.current.live)
