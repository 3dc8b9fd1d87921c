"""The law of batches in a sidecar: whatever keys, aggregates and policies, and however often the
process starts anew, an operator equals the reference, as the table in Spark's store does.
"""

import tempfile
from contextlib import closing
from dataclasses import replace
from functools import reduce
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlestate.backends.shards.key_counts import KeyCounts
from idlestate.backends.shards.packet_codec import encode_packet
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.sidecar.core.attempt import Attempt
from idlestate.sidecar.core.local_placement import LocalPlacement
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.timers.clock import FakeClock
from tests.backends.law_cases import Case, cases, times
from tests.backends.law_runner import (
    Found,
    assert_batch_is_in_form,
    assert_returning_keys,
    by_shard,
    last_rows,
    plain_rows,
    policy_of,
    run_reference,
    spec_of,
    steps_of,
)
from tests.compare import assert_rows, assert_states
from tests.lengths import by_cases
from tests.reference import Reference
from tests.sidecar.sidecar_world import STORES, lives_in_parts

UID = "law"
LONG_AGO_MS = -(10**15)


class Sidecar:
    """An operator, and the query that owns it; each shard has a task of its own.

    Attributes:
        reached_ms: what the commit log of the query says of event time.
    """

    reached_ms = 0

    def __init__(self, case: Case, kind: str, folder: Path, spec: TableSpec | None = None) -> None:
        self.case, self.kind, self.folder = case, kind, folder
        self.spec = spec or spec_of(case)
        self.time = TimeDomain.PROCESSING if case.at_batch_time else TimeDomain.EVENT
        self.clock, self.handles = FakeClock(0), count()
        self.start()
        self.operator.batches.begin("query", "run", "checkpoint")

    def start(self) -> None:
        self.store = STORES[self.kind](self.folder)
        self.placement = LocalPlacement(self.store, self.clock)
        self.host = Host(self.store, self.clock, lambda *_: self.reached_ms, self.placement)
        declaration = Declaration.of(UID, self.spec, self.time, self.case.shards)
        self.operator = self.host.declare(declaration, self.policy(0))

    def close(self) -> None:
        self.store.close()

    def policy(self, batch_id: int) -> Policy:
        return policy_of(self.case.rule_of(batch_id), self.time)

    def run(self, batch_id: int, to_ms: int) -> list[Found]:
        """Let a batch be prepared; its update rows."""
        case, found = self.case, list[Found]()
        steps = by_shard(steps_of(self.spec, case, case.batches[batch_id]), case.shards)
        for at, part in enumerate(steps):
            attempt = Attempt(
                query_id="query",
                run_id="run",
                execution_id=f"{batch_id}",
                batch_id=batch_id,
                attempt=0,
                partition=at,
                partitions=case.shards,
                shards=(at,),
                time_ms=to_ms,
                watermark_ms=to_ms,
                policy=self.policy(batch_id),
            )
            self.operator.batches.open(attempt)
            handle, stage = f"{next(self.handles)}", self.placement.stage
            stage.add(handle, (at, 0, 0), encode_packet(part), is_first=True)
            (chunks,) = self.operator.batches.prepare(attempt, handle, [0], {}).chunks
            for chunk in range(chunks):
                rows = pa.ipc.open_stream(stage.fetch(handle, chunk)).read_all()
                found += plain_rows(self.spec, rows)
        return found

    def expired(self, since: int) -> list[Found]:
        table = self.operator.expired(since, None, 10**9)
        if table is None:
            return []
        # By position: a column of the operator may be called like the number, too.
        return plain_rows(self.spec, table.remove_column(table.num_columns - 1))

    def tally(self) -> KeyCounts:
        return reduce(KeyCounts.plus, (shard.tally for shard in self.operator.state.shards))

    def lives(self) -> list[Found]:
        """All that are in its tables."""
        policy, state = self.policy(len(self.case.batches)), self.operator.state
        return [
            row
            for at, shard in enumerate(state.shards)
            for part in lives_in_parts(state.executor, shard, at, policy)
            for row in plain_rows(self.spec, part)
        ]


def assert_equals_reference(
    sidecar: Sidecar, reference: Reference, rows: list[Found], case: Case
) -> None:
    """Results, what is left of state, and counts."""
    assert_rows(reference.last_rows(), last_rows(rows), case.aggregates)
    assert_states(reference.states(), sidecar.lives(), case.aggregates)
    tally, counts = sidecar.tally(), reference.counts
    assert tally.created == counts["created"]
    assert tally.expired == (counts["lifetime"], counts["ttl"], counts["idle"])
    if case.compares_returning_keys:
        assert_returning_keys(reference, tally)


def has_times_of_batches(case: Case) -> bool:
    """Whether its batches may have been planned at their times: none was before 1970."""
    return not case.at_batch_time or min(times(case.batches[0])) >= 0


def swept_as_it_does(case: Case) -> Case:
    """The case with sweeps of which there is one after each batch, in processing time at its
    time.
    """
    sweeps = [LONG_AGO_MS if sweep is None else sweep for sweep in case.sweeps]
    if case.at_batch_time:
        sweeps = [max(times(batch)) for batch in case.batches]
    return replace(case, sweeps=sweeps, reference_sweeps=True)


@by_cases("examples", 15)
@pytest.mark.parametrize("kind", STORES)
def test_an_operator_equals_the_reference(kind: str, examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None)
    @given(cases(is_sorted=True).filter(has_times_of_batches).map(swept_as_it_does))
    def law(case: Case) -> None:
        reference = run_reference(case)
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(Sidecar(case, kind, Path(folder) / "state")) as sidecar,
        ):
            rows: list[Found] = []
            for batch_id, (batch, to_ms) in enumerate(zip(case.batches, case.sweeps, strict=True)):
                since = sidecar.operator.record.next_seq
                assert to_ms is not None
                updates = sidecar.run(batch_id, to_ms)
                if case.restores[batch_id % len(case.restores)]:
                    sidecar.close()
                    sidecar.start()
                sidecar.operator.batches.settle()
                found = [*sidecar.expired(since), *updates]
                assert_batch_is_in_form(found, batch, batch_id)
                rows += found
            assert_equals_reference(sidecar, reference, rows, case)

    law()


def is_swept_between(case: Case) -> bool:
    """Whether sweeps between batches change nothing: they go by the policy that held, and no time
    is before 1970.
    """
    return not case.at_batch_time and not case.changes and min(map(min, all_times(case))) > 0


def all_times(case: Case) -> list[list[int]]:
    return [times(batch) for batch in case.batches]


@by_cases("examples", 15)
def test_sweeps_between_the_batches_of_event_time_change_nothing(examples: int) -> None:
    """They close what the next batch would have closed, as far as the query has got."""

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None)
    @given(
        cases(is_sorted=True).filter(is_swept_between).map(swept_as_it_does),
        st.lists(st.booleans(), min_size=3, max_size=3),
    )
    def law(case: Case, sweeps: list[bool]) -> None:
        reference, rows = run_reference(case), list[Found]()
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(Sidecar(case, "heap", Path(folder) / "state")) as sidecar,
        ):
            for batch_id, to_ms in enumerate(case.sweeps):
                since = sidecar.operator.record.next_seq
                assert to_ms is not None
                rows += sidecar.run(batch_id, to_ms)
                following = case.sweeps[batch_id + 1 : batch_id + 2]
                first_ms = min(map(min, all_times(case)[batch_id + 1 :]), default=0)
                # No row is late, and a watermark is never below 0.
                sidecar.reached_ms = max(0, min([*following, first_ms - 1]))
                sidecar.operator.batches.settle()
                if sweeps[batch_id % 3]:
                    operator, clock = sidecar.operator, sidecar.clock
                    assert not operator.sweeper.sweep(operator.due_ms(0), clock, 1000)
                rows += sidecar.expired(since)
            assert_equals_reference(sidecar, reference, rows, case)

    law()
