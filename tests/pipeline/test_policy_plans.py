"""`plan`: what another policy would remove equals the slow reference, and nothing is removed."""

import tempfile
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import idlestate
from idlestate import Policy
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.backends.shards.planned_removals import (
    HORIZONS_MS,
    Horizon,
    PolicyPlan,
    Removal,
    added_up,
    horizons_of,
)
from idlestate.backends.shards.shard_record import RunRef, ShardRecord, TableRecord
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.recorded_shards import UnrecordedError
from idlestate.pipeline.policy_change import change_policy
from idlestate.pipeline.policy_plans import refuse_shrink
from idlestate.retention.policy import TimeDomain
from idlestate.timers.clock import FakeClock
from tests.backends.law_cases import ROW_VALUES, Case, cases, rules, times
from tests.backends.law_runner import policy_of, run_reference, run_table, spec_of
from tests.lengths import by_cases, law
from tests.pipeline.made_checkpoint import (
    UID,
    make_case,
    make_checkpoint,
    policies_of,
    time_of,
    tree_hash,
)
from tests.reference import Record, Reference, Rule
from tests.sidecar.sidecar_world import STORES
from tests.sidecar.test_law import Sidecar, has_times_of_batches, swept_as_it_does

ROW_BYTES = 100


def brute_force(reference: Reference, rule: Rule, now_ms: int) -> list[tuple[int, int, int]]:
    """Per horizon the keys that end by another rule, by the one in force, and by it alone."""
    other = deepcopy(reference)
    other.change_rule(rule)
    found = []
    for in_ms in HORIZONS_MS:
        at_ms = now_ms + in_ms
        new = {key for key, life in other.lives.items() if other.has_ended(life, at_ms)}
        old = {key for key, life in reference.lives.items() if reference.has_ended(life, at_ms)}
        found.append((len(new), len(old), len(new - old)))
    return found


def counted(horizons: tuple[Horizon, ...]) -> list[tuple[int, int, int]]:
    return [(each.new.keys, each.current.keys, each.more.keys) for each in horizons]


def stored(table: ShardTable) -> ShardRecord:
    """A record by which every row takes as many bytes."""
    found = {}
    for name, runs in table.tables.items():
        each = enumerate(runs.runs)
        refs = (RunRef(str(at), at, len(run), ROW_BYTES * len(run)) for at, run in each)
        found[name] = TableRecord(tuple(refs), runs.sweeps, runs.live)
    return ShardRecord(tables=found)


@st.composite
def moments(draw: st.DrawFn, case: Case) -> int:
    """A time at which, or an hour or a day before which, something may be due."""
    every = [t_ms for batch in case.batches for t_ms in times(batch)]
    off = draw(st.integers(-3, 60)) - draw(st.sampled_from(HORIZONS_MS))
    return draw(st.sampled_from(every)) + off


@law(12, cases(is_sorted=False), rules(), st.data())
def test_what_would_be_removed_equals_the_reference(case: Case, rule: Rule, data: st.DataObject):
    reference, (tables, _, _) = run_reference(case), run_table(case, spec_of(case))
    now_ms = data.draw(moments(case))
    policy = policy_of(case.rule_of(len(case.batches)))
    found = added_up(
        horizons_of(each, stored(each), (policy, policy), (policy_of(rule), Policy()), now_ms)
        for each in tables
    )
    assert counted(found) == brute_force(reference, rule, now_ms)
    for each in found:
        for part in (each.new, each.current, each.more):
            assert part.bytes == ROW_BYTES * part.keys


committed = cases(is_sorted=True).filter(has_times_of_batches).map(swept_as_it_does)


@law(12, committed, rules(), st.data())
def test_a_plan_of_a_checkpoint_changes_nothing_in_it(case: Case, rule: Rule, data: st.DataObject):
    reference, now_ms = run_reference(case), data.draw(moments(case))
    if case.at_batch_time:
        now_ms = max(now_ms, *(times(batch)[0] for batch in case.batches))
    policy = policy_of(rule, time_of(case))
    with tempfile.TemporaryDirectory() as folder:
        make_checkpoint(Path(folder), case, now_ms)
        before = tree_hash(Path(folder))
        (plan,) = idlestate.plan(policy, folder, clock=FakeClock(max(0, now_ms)))
        assert tree_hash(Path(folder)) == before
    assert (plan.uid, plan.policy, plan.new_policy) == (UID, policies_of(case)[-1], policy)
    assert plan.now_ms == now_ms
    assert plan.stored_keys == len(reference.lives)
    assert counted(plan.horizons) == brute_force(reference, rule, now_ms)


@by_cases("examples", 12)
@pytest.mark.parametrize("kind", STORES)
def test_a_plan_of_a_sidecar_equals_the_reference(kind: str, examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(committed, rules(), st.data())
    def law(case: Case, rule: Rule, data: st.DataObject) -> None:
        # A watermark is never below 0.
        reference, now_ms = run_reference(case), max(0, data.draw(moments(case)))
        if case.at_batch_time:
            now_ms = max(now_ms, *(times(batch)[0] for batch in case.batches))
        with tempfile.TemporaryDirectory() as folder:
            sidecar = Sidecar(case, kind, Path(folder) / "state")
            for batch_id, to_ms in enumerate(case.sweeps):
                assert to_ms is not None
                sidecar.run(batch_id, to_ms)
                sidecar.reached_ms = now_ms
                sidecar.operator.batches.settle()
            before = sidecar.operator.state.now
            plan = sidecar.operator.plan(policy_of(rule, time_of(case)), now_ms)
            assert sidecar.operator.state.now is before
            sidecar.close()
        assert PolicyPlan.of_message(plan.to_message(), plan.new_policy) == plan
        assert plan.now_ms == now_ms
        assert counted(plan.horizons) == brute_force(reference, rule, now_ms)

    law()


# ---- the guard


@dataclass(frozen=True)
class Keys:
    """Keys last written at these times, as the only batch."""

    times_ms: tuple[int, ...]

    def checkpoint(self, path: Path, reached_ms: int, rule: Rule) -> Folder:
        records = [Record((at,), t_ms, ROW_VALUES[0]) for at, t_ms in enumerate(self.times_ms)]
        case = replace(make_case(rule, [records], [0], "int64"), shards=2)
        return make_checkpoint(path, case, reached_ms)


TEN = Keys(tuple(range(100, 1_100, 100)))
LONG = Rule(ttl_ms=10_000)


@pytest.mark.parametrize(
    ("ttl_ms", "max_shrink", "is_refused"),
    [
        pytest.param(600, 0.5, False, id="exactly half"),
        pytest.param(599, 0.5, False, id="one below the next key"),
        pytest.param(500, 0.5, True, id="one key more than half"),
        pytest.param(500, 0.6, False, id="a larger share is allowed"),
        pytest.param(1, 1, False, id="all are allowed to go"),
        pytest.param(1, 0.99, True, id="all but one"),
        pytest.param(20_000, 0, False, id="longer removes nothing"),
    ],
)
def test_a_policy_that_removes_too_many_keys_at_once_is_refused(
    tmp_path: Path, ttl_ms: int, max_shrink: float, is_refused: bool
) -> None:
    checkpoint = TEN.checkpoint(tmp_path, reached_ms=1_100, rule=LONG)
    policy, clock = Policy(ttl_ms=ttl_ms, max_shrink=max_shrink), FakeClock(1)
    before = tree_hash(tmp_path)
    if is_refused:
        with pytest.raises(RefusedError, match=r"of 10 live keys at once .* max_shrink"):
            change_policy(checkpoint, UID, policy, clock)
        assert tree_hash(tmp_path) == before
    else:
        change_policy(checkpoint, UID, policy, clock)
        assert PolicyJournal(checkpoint, UID).versions[-1].policy == policy


def test_keys_that_are_overdue_anyway_do_not_count(tmp_path: Path) -> None:
    """Of the two that still live by the current policy one would go."""
    checkpoint = TEN.checkpoint(tmp_path, reached_ms=10_850, rule=LONG)
    (plan,) = idlestate.plan(Policy(ttl_ms=9_850), tmp_path)
    assert (plan.stored_keys, plan.live_keys) == (10, 2)
    assert plan.horizons[0].new == Removal(10, plan.stored_bytes)
    assert plan.horizons[0].more.keys == 2
    refuse_shrink(checkpoint, UID, Policy(ttl_ms=9_851), 0)
    with pytest.raises(RefusedError, match=r"2 of 2 live keys at once \(100%\)"):
        refuse_shrink(checkpoint, UID, Policy(ttl_ms=9_850), 0)


def test_the_refusal_names_the_share_to_allow(tmp_path: Path) -> None:
    checkpoint = TEN.checkpoint(tmp_path, reached_ms=1_100, rule=LONG)
    with pytest.raises(RefusedError, match=r"remove 7 of 10 live keys .* max_shrink: 71%"):
        refuse_shrink(checkpoint, UID, Policy(ttl_ms=400), 0)
    refuse_shrink(checkpoint, UID, Policy(ttl_ms=400, max_shrink=0.71), 0)


def test_before_the_first_batch_any_policy_may_come(tmp_path: Path) -> None:
    checkpoint = TEN.checkpoint(tmp_path, reached_ms=1_100, rule=LONG)
    checkpoint.remove("commits/0")
    (plan,) = idlestate.plan(Policy(ttl_ms=1), tmp_path)
    assert (plan.stored_keys, plan.shrink, plan.refusal) == (0, 0, None)


def test_without_copies_of_records_the_way_out_is_told(tmp_path: Path) -> None:
    checkpoint = TEN.checkpoint(tmp_path, reached_ms=1_100, rule=LONG)
    for path in tmp_path.rglob("*-record-*"):
        path.unlink()
    with pytest.raises(UnrecordedError, match="let the query run one batch, or pass spark="):
        idlestate.plan(Policy(ttl_ms=1), tmp_path)
    with pytest.raises(RefusedError, match="event time, the new policy processing time"):
        idlestate.plan(Policy(ttl_ms=1, time=TimeDomain.PROCESSING), tmp_path)
    refuse_shrink(checkpoint, UID, replace(Policy(ttl_ms=1), max_shrink=1), 0)


def test_a_file_that_gives_the_operator_no_policy_is_told(tmp_path: Path) -> None:
    TEN.checkpoint(tmp_path / "checkpoint", reached_ms=1_100, rule=LONG)
    file = tmp_path / "other.yaml"
    file.write_text("version: 1\npolicies: {a: {ttl: 1h}}\nselectors: [{operator: x, policy: a}]\n")
    with pytest.raises(RefusedError, match=r"other.yaml gives no policy to law; name the operator"):
        idlestate.plan(file, tmp_path / "checkpoint")


def test_a_plan_needs_something_to_look_at() -> None:
    with pytest.raises(RefusedError, match="pass a checkpoint, or the address of a sidecar"):
        idlestate.plan(Policy())
