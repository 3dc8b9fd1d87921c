"""Micro-batches of the query that owns an operator: opened, prepared, committed, exactly once.

A batch is the barrier: all its tasks together are one consistent cut. From the first open of batch
N until N is committed, the tables do not change, so that every task, retry and replay of N reads
the state committed by N - 1. Meanwhile, writes of other clients wait in the inbox, and the batch
itself closes what is due, instead of sweeps. The results of tasks are prepared, and the newest
complete set is committed when a later batch opens or the query's commit log contains N.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from idlestate.backends.shards.row_counts import RowsByInput
from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.sidecar.core.attempt import Attempt, Prepared
from idlestate.sidecar.core.operator_contents import OperatorContents
from idlestate.sidecar.core.operator_record import NO_BATCH, OpenBatch
from idlestate.sidecar.core.ownership import check_run, owned, way_out
from idlestate.sidecar.core.prepared_sets import Piece, PreparedSet, SetId
from idlestate.sidecar.core.segment_keys import segment_keys
from idlestate.sidecar.core.shard_executor import Shards, StepParameters, StepResult
from idlestate.sidecar.protocol.errors import DoesNotFitError, GoneError, SidecarError

ReachedMs = Callable[[str, int], int | None]
"""The event time that a batch reached, from the commit log of a checkpoint; None if the log does
not contain the batch."""


class Batches:
    """The batches of one operator.

    Args:
        state: the operator.
        reached_ms: reads a query's commit log.
        at_border: called under the lock after a batch was committed or discarded: waiting writes
            may change the tables now.
    """

    def __init__(
        self, state: OperatorContents, reached_ms: ReachedMs, at_border: Callable[[], None]
    ) -> None:
        self._state = state
        self._reached_ms = reached_ms
        self._at_border = at_border

    def begin(self, query_id: str, run_id: str, checkpoint: str) -> None:
        """Start a run of the owner query: tasks of earlier runs are refused from now on.

        Raises:
            DoesNotFitError: another query owns the operator, or the run was superseded.
        """
        with self._state.lock:
            self._state.save(owned(self._state.record, query_id, run_id, checkpoint))
        self.settle()

    def open(self, attempt: Attempt) -> OpenBatch:
        """Admit a task; the first one of batch N journals the time and policy for all tasks of N.

        Raises:
            DoesNotFitError: the task's run, batch or partitions do not fit.
        """
        with self._state.lock:
            check_run(self._state.record, attempt.query_id, attempt.run_id)
            record = self._state.record
            if record.open is not None and attempt.batch_id > record.open.batch_id:
                self._commit_or_stop(record.open.batch_id)
            record = self._state.record
            if record.stopped:
                raise DoesNotFitError(record.stopped)
            if attempt.batch_id <= record.committed:
                raise DoesNotFitError(
                    f"operator {self._state.uid!r} has committed batch {record.committed}, but "
                    f"batch {attempt.batch_id} was submitted again; if the checkpoint is older "
                    f"than the sidecar's directory, restore the matching one, or {way_out(record)}"
                )
            if record.open is None:
                self._at_border()
                record = self._state.record
                now_ms = attempt.watermark_ms
                if not self._state.is_event_time:
                    now_ms = max(attempt.time_ms, record.time_ms)
                self._state.save(replace(record, open=attempt.opening(now_ms, record.version)))
            elif attempt.batch_id < record.open.batch_id:
                raise DoesNotFitError(
                    f"operator {self._state.uid!r}: batch {attempt.batch_id} came after batch "
                    f"{record.open.batch_id} had begun; the sidecar supports only queries that "
                    "commit one batch before they plan the next: switch off asynchronous progress "
                    "tracking, continuous and real-time triggers"
                )
            self._set_of(attempt)
            opened = self._state.record.open
            assert opened is not None
            return opened

    def prepare(
        self,
        attempt: Attempt,
        handle: str,
        ranges: Sequence[int],
        counts: Mapping[int, RowsByInput],
    ) -> Prepared:
        """Compute a task's shards and make them durable, but not yet visible.

        Args:
            attempt: the task, which has opened.
            handle: the handle of its packets in the ranges of its shards.
            ranges: the ranges that have packets.
            counts: per shard the rows counted by the packing tasks.

        Raises:
            DoesNotFitError: the task was superseded, its rows do not fit, or a sum overflows.
            GoneError: the batch is not open: open it again.
        """
        opened = self._opened(attempt)
        now_ms = self._state.clock.now_ms()
        parameters = StepParameters(
            opened.policy, opened.t_ms, opened.version + 1, attempt.batch_id, now_ms
        )
        shards, time_ms = self.shards(attempt), attempt.time_ms
        mine = {at: each.counted(counts.get(at, {}), time_ms) for at, each in shards.items()}
        stepped, chunks = self._state.executor.prepare(handle, ranges, mine, parameters)
        return self._prepared(attempt, opened, stepped, chunks)

    def shards(self, attempt: Attempt) -> Shards:
        """The records of a task's shards before its batch; raises the errors of `prepare`."""
        self._opened(attempt)
        return {at: self._state.shards[at] for at in attempt.shards}

    def take(
        self,
        attempt: Attempt,
        handle: str,
        ranges: Sequence[int],
        shards: Shards,
        keys: Mapping[int, Sequence[str]],
    ) -> Prepared:
        """Make the shards durable that a task has computed itself.

        Args:
            attempt: the task, which has opened.
            handle: the handle of their new values in the ranges of its shards.
            ranges: the ranges that have values.
            shards: the next records of its shards.
            keys: per shard the keys of the values.

        Raises:
            DoesNotFitError: the task was superseded, or these are not its shards.
            GoneError: the batch is not open, or the handle is unknown: open it again.
        """
        opened = self._opened(attempt)
        if shards.keys() != set(attempt.shards):
            raise DoesNotFitError(f"operator {self._state.uid!r}: a task has other shards")
        stepped = self._state.executor.take(handle, ranges, shards, keys)
        return self._prepared(attempt, opened, stepped, ())

    def _prepared(
        self,
        attempt: Attempt,
        opened: OpenBatch,
        stepped: Mapping[int, StepResult],
        chunks: tuple[int, ...],
    ) -> Prepared:
        piece = Piece(
            attempt.attempt,
            {at: each.shard for at, each in stepped.items()},
            tuple(staged for each in stepped.values() for staged in each.expired),
        )
        with self._state.lock:
            try:
                if self._opened(attempt) != opened:
                    raise GoneError("the batch was opened again in the meantime")
            except SidecarError:
                self._state.executor.discard(stepped.values())
                raise
            self._keep(attempt, piece, stepped)
        return Prepared(
            chunks,
            {
                at: ShardStatistics.of(each.shard, opened.policy).as_dict()
                for at, each in stepped.items()
            },
        )

    def settle(self) -> None:
        """Commit the open batch if the query's commit log contains it.

        If no set of it is complete, the operator stops, because prepared data was lost. Writes
        that could not be applied at the last border, because a worker or the disk was unavailable
        or the process died, are applied now.
        """
        record = self._state.record
        if record.open is None and self._state.waiting:
            with self._state.lock:
                if self._state.record.open is None:
                    self._at_border()
        if record.open is None or record.owner is None or record.stopped:
            return
        # A checkpoint may be remote: it is read without the lock.
        reached_ms = self._reached_ms(record.owner.checkpoint, record.open.batch_id)
        if reached_ms is None:
            return
        with self._state.lock:
            now = self._state.record
            if (now.owner, now.open, now.stopped) == (record.owner, record.open, None):
                self._commit_or_stop(record.open.batch_id, reached_ms)

    def release(self) -> None:
        """Forget the owner and its prepared data; another query may then own the operator."""
        with self._state.lock:
            gone, removed = self._dropped(list(self._state.sets.sets))
            record = replace(
                self._state.record,
                owner=None,
                superseded=(),
                committed=NO_BATCH,
                batch_time_ms=0,
                open=None,
                reached_ms=0,
                # Another query may start with older rows.
                time_ms=0 if self._state.is_event_time else self._state.record.time_ms,
                stopped=None,
            )
            shards = [each.for_another_query() for each in self._state.shards]
            self._state.save(record, dict(enumerate(shards)), removed=removed)
            self._forget(gone)
            self._at_border()

    def _opened(self, attempt: Attempt) -> OpenBatch:
        with self._state.lock:
            check_run(self._state.record, attempt.query_id, attempt.run_id)
            opened = self._state.record.open
            if opened is None or opened.batch_id != attempt.batch_id:
                raise GoneError(f"batch {attempt.batch_id} is not open (any more)")
            return opened

    def _set_of(self, attempt: Attempt) -> PreparedSet:
        """The task's set; a new execution starts a new one."""
        sets = self._state.sets.sets
        found = sets.get(attempt.set_id)
        if found is None:
            record = self._state.record
            found = PreparedSet(record.next_set, attempt.partitions, {})
            self._state.save(replace(record, next_set=record.next_set + 1))
            sets[attempt.set_id] = found
        if found.partitions != attempt.partitions or attempt.partition not in range(
            found.partitions
        ):
            raise DoesNotFitError(
                f"operator {self._state.uid!r}: a task is partition {attempt.partition} of "
                f"{attempt.partitions}, others of its execution are of {found.partitions}"
            )
        return found

    def _keep(self, attempt: Attempt, piece: Piece, stepped: Mapping[int, StepResult]) -> None:
        prepared = self._set_of(attempt)
        before = prepared.pieces.get(attempt.partition)
        if before is not None and before.attempt > attempt.attempt:
            # A later attempt was faster; both have the same result.
            self._state.executor.discard(stepped.values())
            return
        changes: dict[str, bytes | None] = {}
        gone: dict[str, int] = {}
        if before is not None:
            gone = self._values_of(before, changes)
        for each in stepped.values():
            changes.update(each.values)
        key = self._state.sets.key(prepared.number, attempt.partition)
        changes[key] = piece.encode(attempt.set_id, attempt.partitions)
        self._state.write(changes)
        prepared.pieces[attempt.partition] = piece
        self._state.executor.forget(gone)
        if prepared.is_complete:
            older = list(self._state.sets.older_than(prepared.number))
            lost, removed = self._dropped(older)
            self._state.write(dict.fromkeys(removed))
            self._state.executor.forget(lost)
            for set_id in older:
                # It keeps its rank, because late tasks do not make it newer.
                self._state.sets.sets[set_id].pieces.clear()

    def _commit_or_stop(self, batch_id: int, reached_ms: int = 0) -> None:
        record, sets = self._state.record, self._state.sets
        chosen = sets.newest_complete()
        if chosen is None:
            reason = (
                f"operator {self._state.uid!r}: the sidecar does not have all parts of batch "
                f"{batch_id}, which Spark has committed: its directory is older than the "
                f"checkpoint; restore the matching directory, or {way_out(record)}"
            )
            self._state.save(replace(record, stopped=reason))
            return
        opened = record.open
        assert opened is not None
        others = [set_id for set_id, each in sets.sets.items() if each is not chosen]
        lost, removed = self._dropped(others)
        removed += [sets.key(chosen.number, partition) for partition in chosen.pieces]
        pieces = [chosen.pieces[at] for at in sorted(chosen.pieces)]
        version = opened.version + 1
        after = replace(
            record,
            policy=opened.policy,
            policy_version=opened.policy_version,
            right=opened.right,
            committed=batch_id,
            batch_time_ms=opened.time_ms,
            open=None,
            version=version,
            before=record.before and record.before.after_batch(chosen.number, version),
            time_ms=max(record.time_ms, opened.t_ms),
            reached_ms=max(record.reached_ms, reached_ms),
        )
        self._state.save(
            after,
            {at: shard for piece in pieces for at, shard in piece.shards.items()},
            removed=removed,
            expired=[staged for piece in pieces for staged in piece.expired],
        )
        self._forget(lost)
        self._at_border()

    def _dropped(self, set_ids: Sequence[SetId]) -> tuple[dict[str, int], list[str]]:
        """The runs (with their shards) and keys to remove with these sets."""
        runs: dict[str, int] = {}
        changes: dict[str, bytes | None] = {}
        for set_id in set_ids:
            each = self._state.sets.sets[set_id]
            for partition, piece in each.pieces.items():
                changes[self._state.sets.key(each.number, partition)] = None
                runs |= self._values_of(piece, changes)
        return runs, list(changes)

    def _values_of(self, piece: Piece, changes: dict[str, bytes | None]) -> dict[str, int]:
        """The runs that only this piece names; adds them and its expired records to the changes."""
        runs = {}
        for at, shard in piece.shards.items():
            committed = {run.name for run in self._state.shards[at].runs}
            for run in shard.runs:
                if run.name not in committed:
                    runs[run.name] = at
                    changes.update(dict.fromkeys(segment_keys(self._state.uid, at, run)))
        changes.update(dict.fromkeys(each.key for each in piece.expired))
        return runs

    def _forget(self, runs: Mapping[str, int]) -> None:
        """Discard all sets and their runs."""
        self._state.executor.forget(runs)
        self._state.sets.sets.clear()
