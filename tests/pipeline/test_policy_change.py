"""Policies that change while a query runs: from which batch on, and never otherwise."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import idlestate
from idlestate import Policy
from idlestate.backends.checkpoint.operator_layout import OperatorLayout, write_layout
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.config.problems import ConfigError
from idlestate.errors import RefusedError
from idlestate.pipeline.policy_change import POLICY_DELAY_MS, change_policy
from idlestate.pipeline.spark.local_properties import CHECKPOINT_PROPERTY
from idlestate.pipeline.task_batch import open_task_batch
from idlestate.retention.policy import FOREVER_MS, TimeDomain
from idlestate.timers.clock import FakeClock, SystemClock
from tests.compare import assert_rows, assert_states
from tests.pipeline.clicks import (
    AGGREGATES,
    KEYS,
    MINUTE_MS,
    SCHEMA,
    UID,
    hours,
    record,
    retained,
)
from tests.pipeline.offset_logs import plan
from tests.pipeline.streams import (
    Feed,
    Sink,
    counted,
    forget,
    last_rows,
    plain_rows,
    run,
    start,
    states,
)
from tests.reference import Rule
from tests.reference_pipeline import play

FIRST = Policy(ttl_ms=10)
SECOND = Policy(ttl_ms=20)
NOW_MS = 1_000_000


@pytest.fixture
def checkpoint(tmp_path: Path) -> Folder:
    """A checkpoint whose operator began with the first policy."""
    folder = Folder(str(tmp_path))
    spec = TableSpec((("user", pa.string()),), aggregation({"n": "count"}, {}))
    write_layout(folder, UID, OperatorLayout.of(spec, TimeDomain.EVENT, 2, 2, 10))
    PolicyJournal(folder, UID).append(FIRST, 0)
    return folder


def policy_of(checkpoint: Folder, batch_id: int) -> Policy:
    return PolicyJournal(checkpoint, UID).for_batch(batch_id).policy


def test_a_change_takes_effect_some_seconds_ahead(checkpoint: Folder, tmp_path: Path) -> None:
    version = change_policy(checkpoint, UID, SECOND, FakeClock(NOW_MS))
    assert (version.version, version.effective_ms) == (2, NOW_MS + POLICY_DELAY_MS)
    for batch_id, after_ms in enumerate((0, POLICY_DELAY_MS - 1, POLICY_DELAY_MS)):
        plan(tmp_path, batch_id, NOW_MS + after_ms, read_up_to=batch_id)
    assert [policy_of(checkpoint, at) for at in range(3)] == [FIRST, FIRST, SECOND]


def test_the_same_policy_is_no_change(checkpoint: Folder) -> None:
    assert change_policy(checkpoint, UID, FIRST, FakeClock(NOW_MS)).version == 1
    announced = change_policy(checkpoint, UID, SECOND, FakeClock(NOW_MS))
    assert change_policy(checkpoint, UID, SECOND, FakeClock(NOW_MS + 5)) == announced


def test_a_start_takes_an_announced_policy_at_once(checkpoint: Folder, tmp_path: Path) -> None:
    """Also one that was asked for shortly before the query stopped."""
    change_policy(checkpoint, UID, SECOND, FakeClock(NOW_MS))
    started = change_policy(checkpoint, UID, SECOND, FakeClock(NOW_MS + 3_000), delay_ms=0)
    assert (started.version, started.effective_ms) == (3, NOW_MS + 3_000)
    for batch_id, after_ms in enumerate((2_999, 3_000, POLICY_DELAY_MS)):
        plan(tmp_path, batch_id, NOW_MS + after_ms, read_up_to=batch_id)
    assert [policy_of(checkpoint, at) for at in range(3)] == [FIRST, SECOND, SECOND]


def test_a_change_never_reaches_a_batch_that_is_planned(checkpoint: Folder, tmp_path: Path) -> None:
    """Also not where the clock was set back since."""
    ahead_ms = NOW_MS + 60_000
    plan(tmp_path, 0, ahead_ms, read_up_to=0)
    assert change_policy(checkpoint, UID, SECOND, FakeClock(NOW_MS)).effective_ms == ahead_ms + 1
    assert policy_of(checkpoint, 0) == FIRST


def test_a_change_taken_back_before_it_held(checkpoint: Folder, tmp_path: Path) -> None:
    change_policy(checkpoint, UID, SECOND, FakeClock(NOW_MS))
    change_policy(checkpoint, UID, FIRST, FakeClock(NOW_MS + 3_000))
    for batch_id, after_ms in enumerate((9_999, 10_000, 12_999, 13_000)):
        plan(tmp_path, batch_id, NOW_MS + after_ms, read_up_to=batch_id)
    assert [policy_of(checkpoint, at) for at in range(4)] == [FIRST, SECOND, SECOND, FIRST]


def test_a_batch_without_data_goes_by_the_policy_of_the_one_before(
    checkpoint: Folder, tmp_path: Path
) -> None:
    """It visits only shards that have something due: a new policy would hold on some of them."""
    change_policy(checkpoint, UID, SECOND, FakeClock(NOW_MS), delay_ms=0)
    plan(tmp_path, 0, NOW_MS - 1, read_up_to=0)
    plan(tmp_path, 1, NOW_MS + 1, read_up_to=0)
    plan(tmp_path, 2, NOW_MS + 2, read_up_to=0)
    plan(tmp_path, 3, NOW_MS + 3, read_up_to=1)
    assert [policy_of(checkpoint, at) for at in range(4)] == [FIRST, FIRST, FIRST, SECOND]


def test_a_task_that_runs_again_after_a_change_decides_as_before(
    checkpoint: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It learns its policy from the checkpoint alone; the batch is planned, so nothing changes."""
    properties = {CHECKPOINT_PROPERTY: str(tmp_path), "streaming.sql.batchId": "0"}
    task = SimpleNamespace(getLocalProperty=properties.get)
    monkeypatch.setattr(TaskContext, "get", lambda: task)
    plan(tmp_path, 0, NOW_MS, read_up_to=0)
    first = open_task_batch(UID, {})
    change_policy(checkpoint, UID, SECOND, FakeClock(NOW_MS - 5_000), delay_ms=0)
    assert open_task_batch(UID, {}).in_force == first.in_force
    plan(tmp_path, 1, NOW_MS + 1, read_up_to=1)
    properties["streaming.sql.batchId"] = "1"
    assert open_task_batch(UID, {}).in_force.policy == SECOND


def test_a_journal_that_was_written_too_late_is_told(checkpoint: Folder) -> None:
    class Slow(FakeClock):
        def now_ms(self) -> int:
            self.advance(POLICY_DELAY_MS + 1)
            return super().now_ms()

    with pytest.raises(RefusedError, match=r"writing the new policy to .* took 10 s"):
        change_policy(checkpoint, UID, SECOND, Slow(NOW_MS))


def test_another_time_domain_is_refused(checkpoint: Folder) -> None:
    other = Policy(ttl_ms=20, time=TimeDomain.PROCESSING)
    with pytest.raises(RefusedError, match="uses event time, the new policy processing"):
        change_policy(checkpoint, UID, other, FakeClock(NOW_MS))
    assert len(PolicyJournal(checkpoint, UID).versions) == 1


def test_reload_takes_what_retain_takes(checkpoint: Folder, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(
        "version: 1\npolicies: {short: {idle: {min: 5m, max: 10m}}, long: {ttl: 7d}}\n"
        'selectors: [{operator: "*", policy: long}]\n'
    )
    before_ms = SystemClock().now_ms()
    version = idlestate.reload(tmp_path, uid=UID, policy="short", config=file)
    assert version.policy == Policy(idle_min_ms=5 * MINUTE_MS, idle_max_ms=10 * MINUTE_MS)
    assert version.effective_ms >= before_ms + POLICY_DELAY_MS
    assert idlestate.reload(tmp_path, uid=UID, config=file).policy == Policy(ttl_ms=604_800_000)
    assert idlestate.reload(tmp_path, uid=UID, policy=SECOND).version == 4


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, RefusedError, "reload needs a policy"),
        ({"policy": "short"}, RefusedError, "pass its file"),
        ({"policy": SECOND, "uid": "other"}, RefusedError, "no operator 'other'"),
        ({"config": "gone.yaml"}, ConfigError, "cannot be read"),
    ],
)
def test_what_reload_refuses(checkpoint: Folder, tmp_path: Path, arguments, error, words) -> None:
    with pytest.raises(error, match=words):
        idlestate.reload(tmp_path, **({"uid": UID} | arguments))
    assert len(PolicyJournal(checkpoint, UID).versions) == 1


def test_a_reload_says_that_there_is_no_checkpoint(tmp_path: Path) -> None:
    for place, what in ((tmp_path / "gone", "does not exist"), (tmp_path, "is not a checkpoint")):
        with pytest.raises(RefusedError, match=f"{place} {what}"):
            idlestate.reload(place, uid=UID, policy=SECOND)


# ------------------------------------------------------------------ through Spark


def rule(**spans: int) -> Rule:
    return Rule(remember_ms=FOREVER_MS, **spans)


def policy(of: Rule) -> Policy:
    return Policy(
        idle_min_ms=of.idle_min_ms,
        idle_max_ms=of.idle_max_ms,
        ttl_ms=of.ttl_ms,
        max_lifetime_ms=of.max_lifetime_ms,
        remember_ms=FOREVER_MS,
        min_gap_ms=0,
        max_shrink=1,
    )


RULES = [
    rule(),  # none: then on, under keys that are never touched again
    rule(idle_min_ms=30 * MINUTE_MS, idle_max_ms=45 * MINUTE_MS),
    rule(idle_min_ms=150 * MINUTE_MS, idle_max_ms=300 * MINUTE_MS),  # longer
    rule(),  # off
    rule(max_lifetime_ms=100 * MINUTE_MS),
    rule(ttl_ms=70 * MINUTE_MS),
    rule(idle_min_ms=5 * MINUTE_MS, idle_max_ms=9 * MINUTE_MS),  # shorter
]


class Reloaded:
    """A query that runs while its policy changes before each batch."""

    def __init__(self, spark: SparkSession, folder: Path, batches: int) -> None:
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        self.feed = Feed(folder / "input", SCHEMA)
        self.sink = Sink()
        self.batches = hours(0, batches)

    def changes(self, at: int) -> DataFrame:
        return retained(self.feed.stream(self.spark), policy=policy(RULES[at]))

    def change(self, at: int) -> None:
        """At once, which is allowed because the query has nothing to plan."""
        folder = Folder(str(self.checkpoint))
        change_policy(folder, UID, policy(RULES[at]), FakeClock(SystemClock().now_ms()), delay_ms=0)

    def run_on(self, first: int, stop: int) -> None:
        self.feed.add(self.batches[first])
        query = start(self.changes(first), self.checkpoint, self.sink)
        try:
            query.processAllAvailable()
            for at in range(first + 1, stop):
                self.change(at)
                self.feed.add(self.batches[at])
                query.processAllAvailable()
        finally:
            query.stop()

    def check(self) -> set[str | None]:
        """Batches with data have changed the policy, each its own; sweeps keep it.

        Returns the reasons for which lives ended.
        """
        records = [[record(row) for row in batch] for batch in self.batches]
        played = [
            batch
            for number in sorted(self.sink.batches)
            for batch in (
                [records.pop(0)]
                if "update" in self.sink.batches[number].column("change").to_pylist()
                else [[]]
            )
        ]
        assert not records
        with_data = [number for number, batch in enumerate(played) if batch]
        expected = play(
            played,
            RULES[0],
            AGGREGATES,
            delay_ms=10 * MINUTE_MS,
            rules={number: RULES[at] for at, number in enumerate(with_data)},
        ).reference
        assert_rows(expected.last_rows(), last_rows(plain_rows(self.sink.table, KEYS)), AGGREGATES)
        assert_states(expected.states(), states(self.spark, self.checkpoint, KEYS), AGGREGATES)
        return {row.reason for row in expected.expired}


@pytest.mark.long
def test_a_running_query_and_one_started_again_follow_the_policy(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Once the change is announced and the query ends before a batch takes it up."""
    reloaded = Reloaded(spark, tmp_path, len(RULES))
    reloaded.run_on(0, 3)
    reloaded.change(3)
    reloaded.run_on(3, len(RULES))
    assert reloaded.check() == {"idle", "ttl", "lifetime"}


def test_a_replay_decides_as_the_first_time(spark: SparkSession, tmp_path: Path) -> None:
    """The policy changes after the batch ran and before it was committed: a restart runs it again,
    started with the new policy, on executors that could not read a configuration anyway.
    """
    reloaded = Reloaded(spark, tmp_path, 4)
    reloaded.run_on(0, 2)
    newest = max(reloaded.sink.batches)
    first = reloaded.sink.batches.pop(newest)
    assert "expire" in first.column("change").to_pylist()
    forget(reloaded.checkpoint / "commits", newest)
    reloaded.change(2)
    run(reloaded.changes(2), reloaded.checkpoint, reloaded.sink)
    assert counted(reloaded.sink.batches[newest].to_pylist()) == counted(first.to_pylist())
    reloaded.run_on(2, 4)
    assert reloaded.check() == {"idle"}
