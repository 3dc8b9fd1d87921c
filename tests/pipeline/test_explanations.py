"""`explain` agrees with the slow reference about every key, on every backend, at any moment."""

import json
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import idlestate
from idlestate import Explanation, KeyState, Policy
from idlestate.backends.shards import packet_codec
from idlestate.backends.shards.key_details import KeyDetails, one_key
from idlestate.errors import DamagedStateError, RefusedError
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.timers.clock import FakeClock
from tests.backends.law_cases import KEYS, ROW_VALUES, Case, cases, times
from tests.backends.law_runner import run_reference, spec_of
from tests.compare import LAST_MS
from tests.frequent import assert_frequent
from tests.lengths import by_cases
from tests.pipeline.made_checkpoint import UID, make_case, make_checkpoint, policies_of, tree_hash
from tests.reference import FOREVER_MS, Record, Reference, Rule
from tests.sidecar.sidecar_world import STORES
from tests.sidecar.test_law import Sidecar, has_times_of_batches, swept_as_it_does

Explain = Callable[[tuple[Any, ...]], Explanation]
committed = (
    cases(is_sorted=True)
    .filter(lambda case: has_times_of_batches(case) and not case.weak_hash)
    .map(swept_as_it_does)
)


def check(case: Case, reference: Reference, explain: Explain, now_ms: int) -> None:
    """Ask about every key that the case may have."""
    seen = {record.key for batch in case.batches for record in batch if not record.read}
    for key in KEYS[case.key_kind][1]:
        found = explain(key)
        assert found.now_ms == now_ms
        assert tuple(found.key.values()) == key
        facts, life = found.details, reference.lives.get(key)
        if life is not None:
            deadline_ms, reason = reference.end(life)
            is_over = reference.has_ended(life, now_ms)
            assert facts == KeyDetails(
                KeyState.OVERDUE if is_over else KeyState.OPEN,
                None if deadline_ms == FOREVER_MS else deadline_ms,
                reason,
                life.created_at,
                life.written_at,
                life.read_at,
                life.armed_at,
                reference.last_access(life, reference.rule.update),
                None if life.cleanup_at == FOREVER_MS else life.cleanup_at,
            )
        elif key in reference.ended:
            check_ended(case, reference, key, facts)
        else:
            assert key not in seen
            assert facts.state in (KeyState.NEVER_SEEN, KeyState.FORGOTTEN_OR_NEVER_SEEN)
            if is_ever_remembered(case):
                assert facts.state is KeyState.NEVER_SEEN


def check_ended(case: Case, reference: Reference, key: tuple[Any, ...], facts: KeyDetails) -> None:
    """It is gone, with its last end; or forgotten, where that end is too long ago."""
    ended_ms = reference.ended[key]
    (last,) = [row for row in reference.expired if row.key == key][-1:]
    is_kept, is_lost = is_remembered(case, ended_ms)
    if facts.state is KeyState.GONE:
        assert (facts.deadline_ms, facts.reason) == (ended_ms, last.reason)
        assert not is_lost
    else:
        assert facts.state is KeyState.FORGOTTEN_OR_NEVER_SEEN
        assert not is_kept


def is_remembered(case: Case, ended_ms: int) -> tuple[bool, bool]:
    """Whether an end is certainly remembered, and whether it is certainly forgotten."""
    rules = [case.rule_of(at) for at in range(len(case.batches))]
    sweeps = [each for each in case.sweeps if each is not None]
    is_kept = ended_ms + min(rule.remember_for_ms for rule in rules) >= max(sweeps)
    # Time may run back: a key that ended in the last batch is forgotten by a sweep after it.
    is_lost = not case.changes and ended_ms + rules[0].remember_for_ms < sweeps[-1]
    return is_kept, is_lost


def is_ever_remembered(case: Case) -> bool:
    rules = [case.rule_of(at) for at in range(len(case.batches))]
    return all(rule.remember_ms == FOREVER_MS for rule in rules)


@st.composite
def moments(draw: st.DrawFn, case: Case) -> int:
    """A time that is not before the last batch, and at which some life may have ended."""
    last_ms = max([0, *(each for each in case.sweeps if each is not None)])
    every = [t_ms for batch in case.batches for t_ms in times(batch)]
    return max(last_ms, draw(st.sampled_from(every)) + draw(st.integers(0, 60)))


@st.composite
def asked(draw: st.DrawFn) -> tuple[Case, int]:
    case = draw(committed)
    return case, draw(moments(case))


@pytest.mark.long
def test_cases_have_every_kind_of_key() -> None:
    def kinds(of: tuple[Case, int]) -> set[KeyState]:
        """Of those keys about which the reference leaves no choice."""
        case, now_ms = of
        reference = run_reference(case)
        found = {
            KeyState.OVERDUE if reference.has_ended(life, now_ms) else KeyState.OPEN
            for life in reference.lives.values()
        }
        for key in set(KEYS[case.key_kind][1]) - reference.lives.keys():
            if key in reference.ended:
                is_kept, is_lost = is_remembered(case, reference.ended[key])
                found |= {KeyState.GONE} if is_kept else set()
                found |= {KeyState.FORGOTTEN_OR_NEVER_SEEN} if is_lost else set()
            elif is_ever_remembered(case):
                found.add(KeyState.NEVER_SEEN)
        return found

    assert_frequent(kinds, dict.fromkeys(KeyState, 0.03), asked())


@by_cases("examples", 15)
def test_a_checkpoint_is_explained_as_the_reference_says(examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(asked())
    def law(of: tuple[Case, int]) -> None:
        case, now_ms = of
        names = spec_of(case).key_names
        with tempfile.TemporaryDirectory() as folder:
            make_checkpoint(Path(folder), case, now_ms)
            before = tree_hash(Path(folder))

            def explain(key: tuple[Any, ...]) -> Explanation:
                given_key = dict(zip(names, key, strict=True))
                found = idlestate.explain(given_key, folder, clock=FakeClock(now_ms))
                assert found.policy == policies_of(case)[-1]
                assert (found.policy_version, found.policy.chosen_by) == (1, "selectors[0]")
                json.dumps(found.to_json())
                return found

            check(case, run_reference(case), explain, now_ms)
            assert tree_hash(Path(folder)) == before

    law()


def swept_less_far_in_the_last_batch() -> Case:
    rule = Rule(max_lifetime_ms=2, remember_ms=0)
    batches = [[Record(("a",), t_ms)] for t_ms in (5, 6)]
    return make_case(rule, batches, [9, 8], "string")


@by_cases("examples", 15)
@pytest.mark.parametrize("kind", STORES)
def test_a_sidecar_explains_as_the_reference_says(kind: str, examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @example((swept_less_far_in_the_last_batch(), 9))
    @given(asked())
    def law(of: tuple[Case, int]) -> None:
        case, now_ms = of
        spec = spec_of(case)
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(Sidecar(case, kind, Path(folder) / "state")) as sidecar,
        ):
            for batch_id, to_ms in enumerate(case.sweeps):
                assert to_ms is not None
                sidecar.run(batch_id, to_ms)
                sidecar.reached_ms = now_ms
                sidecar.operator.batches.settle()

            def explain(key: tuple[Any, ...]) -> Explanation:
                columns = one_key(key, spec.keys)
                rows = stream_of(pa.table(columns, names=list(spec.key_names)))
                found = sidecar.operator.explain(rows, now_ms)
                assert KeyDetails.from_json(found.details.to_json()) == found.details
                return found

            check(case, run_reference(case), explain, now_ms)

    law()


# ---- by name


def one_life(path: Path, rule: Rule, sweeps: list[int], reached_ms: int = 0) -> None:
    """Key 0 written at 100, and with each further batch key 1; each has its sweep."""
    batches = [[Record((int(at > 0),), 100 + at, ROW_VALUES[0])] for at in range(len(sweeps))]
    make_checkpoint(path, make_case(rule, batches, sweeps, "int64"), reached_ms)


@pytest.mark.parametrize(
    ("reached_ms", "state"),
    [(139, KeyState.OPEN), (140, KeyState.OVERDUE), (LAST_MS, KeyState.OVERDUE)],
)
def test_a_life_is_overdue_from_its_deadline_on(
    tmp_path: Path, reached_ms: int, state: KeyState
) -> None:
    one_life(tmp_path, Rule(ttl_ms=40), [0], reached_ms)
    facts = idlestate.explain([0], tmp_path).details
    assert (facts.state, facts.deadline_ms, facts.reason) == (state, 140, "ttl")


@pytest.mark.parametrize(
    ("swept_ms", "state"),
    [(140, KeyState.GONE), (145, KeyState.GONE), (146, KeyState.FORGOTTEN_OR_NEVER_SEEN)],
)
def test_an_end_is_known_as_long_as_it_is_remembered(
    tmp_path: Path, swept_ms: int, state: KeyState
) -> None:
    one_life(tmp_path, Rule(ttl_ms=40, remember_ms=5), [0, swept_ms])
    found = idlestate.explain(["0"], tmp_path, uid=UID)
    assert found.details.state is state
    assert found.details.remembered_since_ms == swept_ms - 5


def test_each_rule_is_named_as_the_reason_of_an_end(tmp_path: Path) -> None:
    for reason, rule in (
        ("idle", Rule(idle_min_ms=20, idle_max_ms=40)),
        ("ttl", Rule(ttl_ms=40)),
        ("lifetime", Rule(max_lifetime_ms=40)),
    ):
        one_life(tmp_path / reason, rule, [0, 140])
        facts = idlestate.explain([0], tmp_path / reason).details
        assert (facts.state, facts.deadline_ms, facts.reason) == (KeyState.GONE, 140, reason)


def test_reasons_of_older_ends_are_kept_when_another_rule_ends_a_life(tmp_path: Path) -> None:
    """Ends by being idle take no column; key 0 ends so, keys 1 and 2 by their lifetime."""
    rule = Rule(idle_min_ms=20, idle_max_ms=40, max_lifetime_ms=50, remember_ms=FOREVER_MS)
    writes = [(100, [0]), (200, [1, 2]), (215, [1, 2]), (230, [1, 2]), (300, [3]), (400, [3])]
    batches = [[Record((key,), t_ms, ROW_VALUES[0]) for key in keys] for t_ms, keys in writes]
    sweeps = [t_ms for t_ms, _ in writes]
    make_checkpoint(tmp_path, make_case(rule, batches, sweeps, "int64"))
    ends = {}
    for key in range(4):
        facts = idlestate.explain([key], tmp_path).details
        ends[key] = (facts.state, facts.deadline_ms, facts.reason)
    assert ends == {
        0: (KeyState.GONE, 140, "idle"),
        1: (KeyState.GONE, 250, "lifetime"),
        2: (KeyState.GONE, 250, "lifetime"),
        3: (KeyState.OPEN, 440, "idle"),
    }


def test_a_key_that_never_came_is_told_from_a_forgotten_one_where_that_can_be_known(
    tmp_path: Path,
) -> None:
    one_life(tmp_path, Rule(ttl_ms=40), [0])
    assert idlestate.explain([7], tmp_path).details.state is KeyState.NEVER_SEEN


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ([], r"pass one value for each key column \(k0\); found 0"),
        ([1, 2], r"pass one value for each key column \(k0\); found 2"),
        ({"k1": 1}, "its key columns are k0"),
        (["seven"], "key column k0 is of type int64: .*seven"),
        ([2**70], "key column k0 is of type int64"),
    ],
)
def test_a_key_of_other_columns_is_refused(tmp_path: Path, key: Any, message: str) -> None:
    one_life(tmp_path, Rule(ttl_ms=40), [0])
    with pytest.raises(RefusedError, match=f"operator 'law': {message}"):
        idlestate.explain(key, tmp_path)


def test_a_key_of_bytes_is_given_as_a_command_line_has_it() -> None:
    for kind in (pa.binary(), pa.large_binary()):
        (found,) = one_key(["a\udcff"], [("k", kind)])
        assert found.equals(pa.array([b"a\xff"], kind))
    with pytest.raises(ValueError, match="key column k is of type string: the value is not valid"):
        one_key(["a\udcff"], [("k", pa.string())])


@pytest.mark.parametrize(("zone", "example"), [("UTC", "12:00:00Z$"), (None, "12:00:00$")])
def test_a_text_that_is_no_time_is_refused_with_an_example(zone: str | None, example: str) -> None:
    """Without an offset it could be of any zone, and another key."""
    for text in ("noon", "2026-01-31 12:00:00") if zone else ("noon",):
        message = f'key column k is of type .*: "{text}" is not a time such as 2026-01-31T{example}'
        with pytest.raises(ValueError, match=message):
            one_key([text], [("k", pa.timestamp("us", zone))])


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        ({"a": 1}, pa.string(), "a mapping"),
        ([1], pa.string(), "a list"),
        ("x\x1b[31m", pa.int64(), r'"x\u001b[31m"'),
        (1.5, pa.int64(), "1.5"),
        (10**30, pa.int64(), str(10**30)),
    ],
)
def test_a_value_of_another_type_is_told_in_plain_words(
    value: object, kind: pa.DataType, shown: str
) -> None:
    with pytest.raises(ValueError, match="key column k") as found:
        one_key([value], [("k", kind)])
    assert str(found.value) == (
        f"key column k is of type {kind}: {shown} is not a value of this type"
    )


def test_rows_that_another_version_left_waiting_are_named_with_checkpoint_and_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(Rule(ttl_ms=40), [[Record((0,), 100, ROW_VALUES[0])]], [0], "int64")
    make_checkpoint(tmp_path, case, spec=replace(spec_of(case), in_order=True))
    assert idlestate.explain([0], tmp_path).details.held_rows == 1
    monkeypatch.setattr(packet_codec, "_VERSION", b"next")
    told = f"operator '{UID}' of checkpoint {tmp_path}: waiting rows .*; use the version of"
    with pytest.raises(DamagedStateError, match=told):
        idlestate.explain([0], tmp_path)


def test_a_sidecar_needs_the_operators_uid() -> None:
    with pytest.raises(RefusedError, match="the address of a sidecar and the operator's uid"):
        idlestate.explain(["a"], sidecar="127.0.0.1:1")


def test_the_file_and_the_selector_that_chose_a_policy_are_named(tmp_path: Path) -> None:
    from idlestate.config.loading import load_config

    file = tmp_path / "shop.yaml"
    file.write_text(
        "version: 1\npolicies: {short: {ttl: 1h}}\n"
        "selectors:\n  - {operator: 'cart*', policy: short}\n"
    )
    policy = load_config(file).policy_for("carts")
    assert policy == Policy(ttl="1h")
    assert policy.chosen_by == f"policy short, selectors[0] ({file})"
