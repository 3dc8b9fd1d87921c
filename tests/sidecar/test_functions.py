"""Functions with state in a sidecar: the task makes the step, and batches give the same rows."""

import tempfile
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlestate import Policy
from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.functions import large_states
from idlestate.metrics.key_age_samples import keys_due
from idlestate.pipeline import retain_harness
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.core.attempt import Attempt
from idlestate.sidecar.protocol.errors import DoesNotFitError, GoneError
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.sidecar.server.operator_snapshot import OperatorSnapshot
from idlestate.testing import FunctionHarness
from idlestate.timers.clock import FakeClock
from tests.functions.scripted import OUTPUT, Scripted
from tests.functions.test_function_law import (
    BASE_MS,
    FUNCTIONS,
    POLICIES,
    RECORDS,
    SCHEMA,
    cut,
    harness,
    row,
    tuples,
)
from tests.functions.test_rejected_records import BEGIN, wary
from tests.lengths import by_cases
from tests.sidecar.steps_in_tasks import UID, Sidecar


@by_cases("examples", 15)
@pytest.mark.parametrize("kind", ["rocksdb", "heap in 2 ranges"])
def test_a_function_gives_the_rows_of_sparks_own_store(kind: str, examples: int) -> None:
    """Also if the sidecar dies before a batch is committed, and its tasks run again."""

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None)
    @given(
        FUNCTIONS,
        POLICIES,
        RECORDS,
        st.sets(st.integers(0, 40), max_size=8),
        st.booleans(),
        st.booleans(),
        st.sampled_from([0, 20, large_states.ROW_BYTES]),
    )
    def law(
        function: Scripted,
        policy: Policy,
        records: list[Any],
        cuts: set[int],
        in_order: bool,
        dies: bool,
        row_bytes: int,
    ) -> None:
        with mock.patch.object(large_states, "ROW_BYTES", row_bytes):
            compare(function, policy, records, cuts, in_order=in_order, dies=dies)

    def compare(
        function: Scripted,
        policy: Policy,
        records: list[Any],
        cuts: set[int],
        *,
        in_order: bool,
        dies: bool,
    ) -> None:
        batches = [[*map(row, batch)] for batch in cut(records, cuts)]
        plain = harness(function, policy, 20, in_order=in_order)
        expected = [tuples(plain.batch(batch)) for batch in batches] + [tuples(plain.finish())]
        tested = harness(function, policy, 20, in_order=in_order)
        with (
            tempfile.TemporaryDirectory() as folder,
            pytest.MonkeyPatch.context() as patch,
            closing(Sidecar(kind, Path(folder) / "state", policy, dies=dies)) as sidecar,
        ):
            patch.setattr(retain_harness, "advance", sidecar.advance)
            found = [tuples(tested.batch(batch)) for batch in batches] + [tuples(tested.finish())]
            assert [*map(Counter, found)] == [*map(Counter, expected)]
            state = sidecar.host[UID].state
            (shard,) = state.shards
            lives, _ = state.executor.lives(shard, 0, (policy, policy), -(2**63))
            assert lives.to_pylist() == plain.lives()
            assert shard.tally == plain._record.tally

    law()


def test_records_on_which_a_function_fails_are_rejected_as_without_a_sidecar(
    tmp_path: Path,
) -> None:
    policy = Policy(ttl="10s")
    records = [
        {"key": key, "t": BEGIN + timedelta(seconds=at), "where": where}
        for at, (key, where) in enumerate(product("abc", ["", "process_element", "", "on_timer"]))
    ]
    rows = []
    for dies in (None, True):
        tested = wary()
        with pytest.MonkeyPatch.context() as patch, ExitStack() as closed:
            if dies is not None:
                sidecar = Sidecar("heap", tmp_path / "state", policy, dies=dies)
                closed.enter_context(closing(sidecar))
                patch.setattr(retain_harness, "advance", sidecar.advance)
            rows.append(tested.batch(records[:7]) + tested.batch(records[7:]) + tested.finish())
    assert rows[0] == rows[1]
    assert [row["reason"] for row in rows[0]].count("function_error") == 5


def test_in_processing_time_a_batch_is_judged_at_the_time_that_the_sidecar_gave_it(
    tmp_path: Path,
) -> None:
    policy = Policy(time=TimeDomain.PROCESSING, ttl_ms=40)
    batches = [(0, ["a", "b"]), (30, ["a"]), (20, ["b"]), (45, ["c"]), (90, ["c"])]
    rows = []
    for dies in (None, False, True):
        clock = FakeClock(BASE_MS)
        tested = FunctionHarness(
            SCHEMA, key="key", function=Scripted(35, renews=True), output=OUTPUT,
            columns=["op", "n"], policy=policy, clock=clock,
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patch, ExitStack() as closed:
            if dies is not None:
                sidecar = Sidecar("heap", tmp_path / f"{dies}", policy, dies=dies)
                closed.enter_context(closing(sidecar))
                patch.setattr(retain_harness, "advance", sidecar.advance)
            found = []
            for at_ms, keys in batches:
                clock.advance(BASE_MS + at_ms - clock.now_ms())
                records = [(key, 0, op, 7) for key in keys for op in ("count", "quiet", "look")]
                found.append(tuples(tested.batch([*map(row, records)])))
            rows.append([*map(Counter, found)])
    assert rows[0] == rows[1] == rows[2]
    assert sum(map(len, rows[0])) > 3


def test_values_shards_and_batches_that_are_not_the_tasks_own_are_refused(tmp_path: Path) -> None:
    with closing(Sidecar("heap", tmp_path / "state", Policy(), dies=False)) as sidecar:
        tested = harness(Scripted(None, renews=False), Policy())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retain_harness, "advance", sidecar.advance)
            tested.batch([])
        operator = sidecar.host[UID]
        shards = {0: replace(operator.state.shards[0])}
        stage = sidecar.placement.stage
        assert stage is not None
        stage.add("handle", (0, 0, 0), b"value", is_first=True)
        with pytest.raises(DoesNotFitError, match="values of other keys were sent"):
            operator.state.executor.take("handle", [0], shards, {0: ["s/other/00000/run/000000"]})
        attempt = Attempt(
            query_id="query", run_id="run", execution_id="execution", batch_id=9, attempt=9,
            partition=0, partitions=1, shards=(0,), time_ms=0, watermark_ms=0, policy=Policy(),
        )  # fmt: skip
        operator.batches.open(attempt)
        for others in ({}, {**shards, 1: shards[0]}):
            with pytest.raises(DoesNotFitError, match="a task has other shards"):
                operator.batches.take(attempt, "handle", [], others, {at: [] for at in others})
        with pytest.raises(GoneError, match="batch 8 is not open"):
            operator.batches.take(replace(attempt, batch_id=8), "handle", [], shards, {0: []})


def test_a_timer_that_no_batch_fires_counts_as_expiry_lag_without_a_policy_too(
    tmp_path: Path,
) -> None:
    with closing(Sidecar("heap", tmp_path / "state", Policy(), dies=False)) as sidecar:
        tested = harness(Scripted(), Policy())
        sidecar.watermark_ms = BASE_MS + 500  # the query has got so far, and no batch came since
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retain_harness, "advance", sidecar.advance)
            tested.batch([row(("a", 0, "count", 0)), row(("a", 0, "quiet", 4))])
        (figures,) = OperatorSnapshot(sidecar.host).at(0)
    assert figures.next_end_ms == BASE_MS + 20
    assert figures.expiry_lag_ms(0) == 480
    assert keys_due([figures], 0)[0]["1h"].keys == 1


@pytest.mark.parametrize("time", TimeDomain)
def test_look_ups_return_lives_as_the_newest_batch_left_them(
    tmp_path: Path, time: TimeDomain
) -> None:
    policy, clock = Policy(ttl_ms=40, time=time), FakeClock(BASE_MS)
    with closing(Sidecar("heap", tmp_path / "state", policy, dies=False)) as sidecar:
        tested = FunctionHarness(
            SCHEMA, key="key", function=Scripted(), output=OUTPUT, event_time="t",
            columns=["op", "n"], policy=policy, clock=clock, in_order=False,
        )  # fmt: skip

        def keys() -> list[str]:
            operator = sidecar.host[UID]
            looked_up, _ = operator.look_up(stream_of(pa.table({"key": ["a"]})), clock.now_ms())
            lives, _ = operator.lives(0, clock.now_ms(), LOWEST_HASH)
            found = lives.column("key").to_pylist()
            assert ("a" in found) == ("a" in looked_up.column("key").to_pylist())
            return sorted(found)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retain_harness, "advance", sidecar.advance)
            sidecar.watermark_ms = BASE_MS + 500  # the query has got so far, without a batch since
            tested.batch([row(("a", 0, "count", 0))])
            clock.advance(500)
            assert keys() == ["a"]
            rows = tested.batch([row(("b", 600, "count", 0))]) + tested.batch([])
            assert [each["what"] for each in rows] == ["expire"]
            assert keys() == ["b"]
