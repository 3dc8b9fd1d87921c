"""Joins of rows, by example."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.definition_change import compare_definitions
from idlestate.backends.shards.emitted_rows import ROWS_PER_CELL
from idlestate.backends.shards.join_matches import JoinRows, matches
from idlestate.backends.shards.join_step import apply_join
from idlestate.backends.shards.shard_record import RIGHT
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.state_rows import rows_in_state
from idlestate.backends.shards.stream_join import HOW, stream_join
from idlestate.retention.policy import Policy, TimeDomain
from tests.backends.stream_join_rows import NO_POLICIES, TYPES, Row, rows_of, spec_of, steps_of


def joined(batches, *, how="inner", between=(-10, 20), policies=NO_POLICIES):
    """`l100 r130` is a left row at 100 and a right row at 130, all of one key; each batch has its
    watermark. Which times each batch emits, as `l100-r130`.
    """
    spec = spec_of(how, between)
    table, found = ShardTable.empty(spec), []
    for batch_id, (text, watermark_ms) in enumerate(batches):
        rows = [Row(int(word[0] == "r"), "a", int(word[1:]), int(word[1:]))
                for word in text.split()]  # fmt: skip
        outcome = apply_join(
            table, steps_of(spec, rows), policies, watermark_ms, batch_id, MergePolicy()
        )
        emitted = [f"{row['l'] or ''}-{'' if row.get('r') is None else row['r']}"
                   for row in rows_of(outcome)]  # fmt: skip
        found.append(" ".join(sorted(emitted)))
        table = outcome.table
    return found


def policy(span_ms):
    return Policy(ttl_ms=span_ms)


@pytest.mark.parametrize(
    ("batches", "arguments", "expected"),
    [
        pytest.param(
            [("l100 r89 r90 r120 r121", 0)], {}, ["l100-120 l100-90"], id="both ends included"
        ),
        pytest.param([("l100 r100", 0), ("", 200)], {}, ["l100-100", ""], id="one batch, once"),
        pytest.param(
            [("r105", 0), ("l100", 90), ("", 200)], {}, ["", "l100-105", ""], id="right row first"
        ),
        pytest.param(
            [("l100", 0), ("", 119), ("r120", 119)],
            {},
            ["", "", "l100-120"],
            id="a left row waits for its last partner",
        ),
        pytest.param(
            [("l100", 0), ("", 119), ("", 120), ("", 200)],
            {"how": "left"},
            ["", "", "l100-", ""],
            id="unmatched, once, when the last partner can no longer come",
        ),
        pytest.param(
            [("l100 r110", 0), ("r111", 105), ("", 200)],
            {"how": "left"},
            ["l100-110", "l100-111", ""],
            id="matched rows are not emitted again at their end",
        ),
        pytest.param(
            [("l100 l300", 0), ("r110", 105), ("", 200), ("", 400)],
            {"how": "full"},
            ["", "l100-110", "", "l300-"],
            id="matched in a later batch than it came",
        ),
        pytest.param(
            [("r100", 0), ("", 109), ("", 110)], {"how": "right"}, ["", "", "-100"], id="right"
        ),
        pytest.param(
            [("l100", 0), ("r110 r111", 50), ("r112", 50), ("", 200)],
            {"how": "semi"},
            ["", "l100-", "", ""],
            id="semi, once, with the first match",
        ),
        pytest.param(
            [("l100 l200", 0), ("r110", 50), ("", 220)],
            {"how": "anti"},
            ["", "", "l200-"],
            id="anti",
        ),
        pytest.param(
            [("l100", 99), ("", 100)],
            {"how": "left", "between": (-30, -10)},
            ["l100-", ""],
            id="partners lie in the past alone, and none was there",
        ),
        pytest.param(
            [("l100 r149 r150", 0)],
            {"between": None, "policies": (policy(50), policy(7))},
            ["l100-149"],
            id="regular: the left row is kept for less than 50 ms",
        ),
        pytest.param(
            [("l106 l107 r100", 0)],
            {"between": None, "policies": (policy(50), policy(7))},
            ["l106-100"],
            id="regular: the right row is kept for less than 7 ms",
        ),
        pytest.param(
            [("l100", 0), ("", 149), ("", 150), ("", 200)],
            {"between": None, "how": "left", "policies": (policy(50), Policy())},
            ["", "", "l100-", ""],
            id="regular: unmatched at the end of the row",
        ),
        pytest.param(
            [("l100 r105 r106", 0)],
            {"policies": (policy(6), Policy())},
            ["l100-105"],
            id="a policy shortens the interval",
        ),
    ],
)
def test_joined(batches, arguments, expected):
    assert joined(batches, **arguments) == expected


@pytest.mark.parametrize("how", HOW)
def test_a_null_key_matches_nothing_and_is_not_kept(how):
    spec = spec_of(how, (-10, 10))
    rows = [Row(0, None, 100, 1), Row(1, None, 100, 2)]
    outcome = apply_join(
        ShardTable.empty(spec), steps_of(spec, rows), NO_POLICIES, 0, 0, MergePolicy()
    )
    left, right = {"k": None, "l": "l1", "batch_id": 0}, {"k": None, "l": None, "batch_id": 0}
    if spec.kind.emits_pairs:
        left, right = left | {"r": None}, right | {"r": 2}
    kept = {"left": [left], "anti": [left], "right": [right], "full": [left, right]}
    assert rows_of(outcome) == kept.get(how, [])
    assert not outcome.table.current.live + outcome.table.others[RIGHT].live


def test_pairs_of_a_hot_key_are_made_a_portion_at_a_time():
    spec = spec_of("inner", (-10, 10))
    rows = [Row(side, "hot", 100, at) for side in (0, 1) for at in range(2000)]
    outcome = apply_join(
        ShardTable.empty(spec), steps_of(spec, rows), NO_POLICIES, 0, 0, MergePolicy()
    )
    first = outcome.changes.read_next_batch()
    assert len(first) == ROWS_PER_CELL
    assert len(first) + sum(map(len, outcome.changes)) == 2000 * 2000


def test_unmatched_rows_that_end_together_are_not_gathered_at_once():
    spec, merge = spec_of("left", (-10, 10)), MergePolicy(segment_bytes=1)
    table = ShardTable.empty(spec)
    for at in range(3):
        outcome = apply_join(
            table, steps_of(spec, [Row(0, "a", 100, at)]), NO_POLICIES, 0, at, merge
        )
        table = outcome.table
    ended = apply_join(table, steps_of(spec, []), NO_POLICIES, 200, 3, merge)
    assert [len(part) for part in ended.changes] == [1, 1, 1]


@pytest.mark.parametrize("key_hash", [-(1 << 63), -1, (1 << 63) - 1])
def test_a_key_with_any_hash_finds_partners_and_marks_in_state(key_hash):
    spec, found = spec_of("left", (-10, 20)), []
    table = ShardTable.empty(spec)
    batches = [(Row(0, "a", 100, 1), 0), (Row(1, "a", 110, 2), 0), (None, 200)]
    for batch_id, (row, watermark_ms) in enumerate(batches):
        steps = steps_of(spec, [row] if row else [])
        steps = replace(steps, hashes=np.full(len(steps), key_hash))
        outcome = apply_join(table, steps, NO_POLICIES, watermark_ms, batch_id, MergePolicy())
        found.append([(each["l"], each["r"]) for each in rows_of(outcome)])
        table = outcome.table
    assert found == [[], [("l1", 2)], []]


NO_MERGES = MergePolicy(ratio=0.0)


def test_rows_that_a_policy_removed_do_not_come_back_under_a_longer_one():
    spec, table, found = spec_of("left", None), ShardTable.empty(spec_of("left", None)), []
    batches = [("l", 100, 50, 0), ("l", 400, 50, 150), ("r", 410, 1000, 160)]
    for batch_id, (side, t_ms, span_ms, watermark_ms) in enumerate(batches):
        steps = steps_of(spec, [Row(int(side == "r"), "a", t_ms, t_ms)])
        outcome = apply_join(
            table, steps, (policy(span_ms), Policy()), watermark_ms, batch_id, NO_MERGES
        )
        found.append([(row["l"], row["r"]) for row in rows_of(outcome)])
        table = outcome.table
    assert found == [[], [("l100", None)], [("l400", 410)]]


def test_times_may_be_farther_apart_than_timestamps_are():
    spec, step_ms = spec_of("left", (-5, 5)), 1 << 43
    rows = [Row(side, f"{at}", at * step_ms + side * (at % 11), at)
            for side in (0, 1) for at in range(2000)]  # fmt: skip
    outcome = apply_join(
        ShardTable.empty(spec), steps_of(spec, rows), NO_POLICIES, 1 << 60, 0, MergePolicy()
    )
    found = {(row["l"], row["r"]) for row in rows_of(outcome)}
    assert found == {(f"l{at}", at if at % 11 <= 5 else None) for at in range(2000)}


def test_rows_of_many_keys_match_none_of_another_key_whose_times_are_far_apart():
    far_ms = (1 << 43) - 2
    rows = JoinRows(np.array([0, 1 << 21]), np.array([far_ms, 0]), [], 0)
    others = JoinRows(np.array([0, 0]), np.array([0, far_ms]), [], 0)
    found, _ = matches(rows, others, -10, 10)
    assert found.counts.tolist() == [1, 0]


def test_rows_that_ended_leave_the_state_within_some_batches():
    spec = spec_of("full", (-100, 100))
    table = ShardTable.empty(spec)
    for batch_id in range(60):
        now_ms = 1000 + 100 * batch_id
        rows = [Row(side, f"{at % 7}", now_ms + at, at) for side in (0, 1) for at in range(100)]
        outcome = apply_join(
            table, steps_of(spec, rows), NO_POLICIES, now_ms - 1, batch_id, MergePolicy()
        )
        list(outcome.changes)
        table = outcome.table
        for runs in (table.current, *table.others.values()):
            assert runs.live <= 300
            # Below `floor_rows` space is of no concern.
            assert sum(map(len, runs.runs)) <= MergePolicy().floor_rows
            assert len(runs.runs) <= MergePolicy().most_runs


def test_columns_change_on_existing_state():
    before = spec_of("left", (-10, 10))
    table = ShardTable.empty(before)
    rows = [Row(0, "a", 100, 1), Row(1, "a", 105, 2)]
    outcome = apply_join(table, steps_of(before, rows), NO_POLICIES, 0, 0, MergePolicy())
    assert [(row["l"], row["r"]) for row in rows_of(outcome)] == [("l1", 2)]
    types = TYPES | {"more": pa.string()}
    after = replace(before, kind=stream_join("left", (-10, 10), ["l"], ["more"], types))
    takeover = compare_definitions(
        Definition.of(before, TimeDomain.EVENT), Definition.of(after, TimeDomain.EVENT)
    )
    became = {each.name: each.became for each in takeover.changes}
    assert became == {"l": "kept", "more": "added", "r": "dropped"}
    spec, old = takeover.definition.spec(), outcome.table
    tables = {"open": old.current, "remembered": old.remembered, **old.others}
    tables = {name: runs.with_schema(spec.tables[name]) for name, runs in tables.items()}
    table = ShardTable.of(spec, tables, old.seen)
    rows = [Row(0, "a", 107, 3)]
    outcome = apply_join(table, steps_of(spec, rows), NO_POLICIES, 101, 1, MergePolicy())
    assert [(row["l"], row["more"]) for row in rows_of(outcome)] == [("l3", None)]


def test_another_interval_or_kind_of_join_is_refused():
    before = Definition.of(spec_of("left", (-10, 10)), TimeDomain.EVENT)
    for how, between in (("left", (-10, 11)), ("left", None), ("full", (-10, 10))):
        after = Definition.of(spec_of(how, between), TimeDomain.EVENT)
        (refusal,) = compare_definitions(before, after).refusals
        assert refusal.startswith("kind was join left between -10ms and 10ms, is now join")


def test_the_journal_keeps_a_policy_for_each_input(tmp_path):
    checkpoint = Folder(str(tmp_path))
    for _ in range(2):  # no version twice
        PolicyJournal(checkpoint, "pairs").append(Policy(ttl="1h"), 5, Policy(ttl="2h"))
    (version,) = PolicyJournal(checkpoint, "pairs").versions
    assert version.of_sides == (Policy(ttl="1h"), Policy(ttl="2h"))
    PolicyJournal(checkpoint, "pairs").append(Policy(ttl="1h"), 9, Policy(ttl="3h"))
    assert PolicyJournal(checkpoint, "pairs").at(9).right == Policy(ttl="3h")


def test_rows_in_state_are_shown_with_their_side_and_deadline():
    spec = spec_of("left", (-10, 20))
    rows = [Row(0, "a", 100, 1), Row(1, "a", 105, 2)]
    policies = Policy(ttl_ms=15), Policy()
    outcome = apply_join(
        ShardTable.empty(spec), steps_of(spec, rows), policies, 0, 0, MergePolicy()
    )
    rows_of(outcome)
    shown = [row for part in rows_in_state(outcome.table, policies) for row in part.to_pylist()]
    assert [(row["join_side"], row["l"], row["r"]) for row in shown] == [
        ("left", "l1", None),
        ("right", None, 2),
    ]
    times_ms = [[round(row[name].timestamp() * 1000) for name in ("created_at", "deadline")]
                for row in shown]  # fmt: skip
    assert times_ms == [[100, 115], [105, 115]]
