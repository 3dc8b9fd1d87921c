"""Tables of several runs: what is closed stays closed, what is written is the same again."""

from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs import run_codec
from idlestate.backends.runs.byte_source import Whole
from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.runs.packed_rows import PackedRows
from idlestate.backends.runs.row_layout import RowLayout, extras_of
from idlestate.backends.runs.run import Run
from idlestate.backends.runs.run_codec import RunError, decode_run, encode_run
from idlestate.backends.runs.segment import Segment
from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy
from tests.backends.law_runner import plain_rows, restored

SPEC = TableSpec(keys=(("k", pa.string()),), kind=aggregation({"n": "count"}, {}))
APART = MergePolicy(ratio=0, dense=1e9, space=1e9, most_runs=1000)
TOGETHER = MergePolicy(ratio=1e9, most_runs=1)
SHORT, LONG = (
    Policy(idle_min_ms=10, idle_max_ms=10, min_gap_ms=0),
    Policy(idle_min_ms=100, idle_max_ms=100, min_gap_ms=0),
)
OFF = Policy()


def steps(keys, t_ms):
    return Steps.from_records(SPEC, [pa.array(keys, pa.string())], np.full(len(keys), t_ms), {})


class Player:
    """Applies batches one after the other, the table written and read back in between."""

    def __init__(self, merge=APART):
        self.table, self.merge, self.batch_id = ShardTable.empty(SPEC), merge, 0
        self.expired = []

    def play(self, keys, t_ms, policy, sweep_at_ms, merge=None):
        outcome = self.table.apply(
            steps(keys, t_ms), policy, sweep_at_ms, self.batch_id, merge or self.merge
        )
        self.table = restored(outcome.table)
        self.batch_id += 1
        rows = plain_rows(SPEC, outcome.changes)
        self.expired += [row["key"][0] for row in rows if row["change"] == "expire"]
        return outcome

    def open(self, policy):
        return sorted(row["key"][0] for row in plain_rows(SPEC, self.table.lives(policy)))


@pytest.mark.parametrize("last", [APART, TOGETHER])
def test_a_longer_policy_revives_nothing(last):
    player = Player()
    player.play(["a", "b"], 0, SHORT, None)
    player.play(["c"], 5, SHORT, 10)  # closes a and b
    assert sorted(player.expired) == ["a", "b"]
    player.play(["d"], 11, LONG, 11)
    assert player.open(LONG) == ["c", "d"]
    player.play(["a"], 12, LONG, 12, last)  # a new life, not the old one
    assert player.open(LONG) == ["a", "c", "d"]
    assert len(player.table) == 3
    player.play([], 13, LONG, 10**6, last)
    assert sorted(player.expired) == ["a", "a", "b", "c", "d"]


def test_a_key_that_lives_and_ends_again_is_remembered_again():
    forever = replace(SHORT, remember_ms=FOREVER_MS)
    newest = MergePolicy(ratio=1, dense=1e9, space=1e9, most_runs=1000)
    player = Player(newest)
    player.play(["a", "b", "c", "d", "e"], 0, forever, 0)
    player.play([], 10, forever, 10)
    for begun_ms in (20, 40, 60):
        # The tombstone of this life is merged with the end of it, not with what is older.
        assert player.play(["a"], begun_ms, forever, begun_ms).tally.returning_keys == 1
        player.play([], begun_ms + 10, forever, begun_ms + 10)
        assert [len(run) for run in player.table.remembered.runs] == [5, 1]
        assert player.table.remembered.live == 5


def test_a_sweep_that_goes_less_far_revives_nothing():
    player = Player()
    player.play(["a"], 0, SHORT, None)
    player.play(["b"], 15, SHORT, 15)
    player.play(["c"], 16, SHORT, 5)
    assert player.open(SHORT) == ["b", "c"]
    player.play([], 0, SHORT, 10**6)
    assert player.expired == ["a", "b", "c"]


def test_many_changes_of_policy_are_remembered_as_long_as_a_run_is_older():
    player = Player()
    player.play(["old"], 0, OFF, 0)
    for at, span in enumerate([1000, 50, 700, 30, 400], start=1):
        policy = Policy(idle_min_ms=span, idle_max_ms=span, min_gap_ms=0)
        player.play([f"k{at}"], 20 * at, policy, 20 * at)
    # The fourth policy, 30 ms in force at 80, closed what ended by 80; the fifth brings none back.
    assert sorted(player.expired) == ["k1", "k2", "old"]
    assert player.open(policy) == ["k3", "k4", "k5"]
    assert len(player.table.current.sweeps) == 5
    player.play([], 0, policy, 100, MergePolicy(space=0, floor_rows=0))
    assert player.table.current.sweeps == ()
    assert player.open(policy) == ["k3", "k4", "k5"]


def test_a_policy_switched_on_reaches_keys_that_are_never_touched_again():
    player = Player()
    player.play(["a"], 0, OFF, 1000)
    player.play(["b"], 1000, OFF, 2000)
    assert player.open(OFF) == ["a", "b"]
    player.play([], 0, LONG, 1099)
    assert player.expired == ["a"]
    player.play([], 0, OFF, 10**9)
    player.play([], 0, LONG, 1100)
    assert player.expired == ["a", "b"]


def test_an_end_is_remembered_up_to_its_last_millisecond():
    policy = replace(SHORT, remember_ms=5)
    player = Player()
    player.play(["a", "b"], 0, policy, 10)  # both end at 10
    assert player.table.remembered.live == 2
    player.play([], 0, policy, 15)
    assert player.table.remembered.live == 2
    assert player.play(["a"], 15, policy, None).tally.returning_keys == 1
    assert player.table.remembered.live == 1
    player.play([], 0, policy, 16)
    assert player.table.remembered.live == 0
    assert player.play(["b"], 15, policy, None).tally.returning_keys == 0
    # What was forgotten stays so when more is remembered.
    forever = replace(SHORT, remember_ms=FOREVER_MS)
    player.play([], 0, forever, 17)
    assert player.table.remembered.live == 0


def test_after_a_change_of_policy_tables_are_indexed_anew_each_in_its_batch():
    for stagger in (0.0, 0.5, 0.9):
        merge = MergePolicy(ratio=0, dense=1e9, space=1e9, most_runs=99, turns=4, stagger=stagger)
        player = Player(merge)
        player.play([f"k{at}" for at in range(100)], 0, LONG, 0)
        runs = []
        for _ in range(8):
            player.play([], 0, SHORT, 1)
            (run,) = player.table.current.runs
            runs.append((run.batch_id, run.policy))
        written = next(at for at in range(1, 9) if merge.is_turn(at))
        assert runs == [(0, LONG)] * (written - 1) + [(written, SHORT)] * (9 - written)


def test_a_sweep_writes_nothing():
    player = Player(MergePolicy())
    player.play([f"a{at}" for at in range(500)], 0, SHORT, 0)
    player.play([f"b{at}" for at in range(500)], 5, SHORT, 5)
    outcome = player.table.apply(steps([], 0), SHORT, 10, 2, MergePolicy())
    assert outcome.tally.expired == (0, 0, 500)
    assert not outcome.current.writes
    assert outcome.table.current.runs == player.table.current.runs
    assert len(outcome.table) == 500


def test_a_sweep_reads_the_rows_that_are_due_and_no_others(monkeypatch):
    player = Player()
    for at in range(10):
        player.play([f"k{at}-{i}" for i in range(100)], 1000 * at, SHORT, None)
    player.play([], 0, SHORT, 1000, TOGETHER)
    taken = []
    really_due = Lives.due_ms
    monkeypatch.setattr(Lives, "due_ms", lambda *args: taken.append(args[0]) or really_due(*args))
    current = player.table.current
    assert len(current.due(SHORT, 1009, np.zeros(0, dtype=np.int64))) == 0
    assert sum(map(len, taken)) == 0
    assert len(current.due(SHORT, 2010, np.zeros(0, dtype=np.int64))) == 200
    assert max(map(len, taken)) <= 220


def test_the_same_batch_makes_the_same_bytes():
    def bytes_of(merge):
        player = Player(merge)
        for at in range(6):
            player.play([f"k{i}" for i in range(at, at + 5)], 7 * at, SHORT, 7 * at)
        for run in player.table.current.runs:
            run.need_all()
        return [run.source.data.to_pybytes() for run in player.table.current.runs]

    for merge in (APART, MergePolicy(segment_rows=2)):
        assert bytes_of(merge) == bytes_of(merge)


def test_segments_are_as_small_as_asked_and_hold_every_row_once():
    player = Player()
    keys = [f"k{at}" for at in range(1000)]
    for at in range(10):
        player.play(keys[at * 100 : at * 100 + 150], 0, LONG, None)
    player.play([], 0, LONG, 0, MergePolicy(space=0, floor_rows=0, segment_rows=64))
    (run,) = player.table.current.runs
    run.need_all()
    assert len(run) == len(player.table) == 1000
    assert len(run.stored.segments) >= 10
    assert max(segment.rows for segment in run.stored.segments) <= 80
    assert all(one.last < two.fences[0] for one, two in pairwise(run.stored.segments))


def test_rows_of_one_hash_are_taken_in_any_order():
    """As a batch asks for keys of one hash in an order of its own."""
    player = Player()
    with patch(
        "idlestate.backends.shards.steps_by_key.hash_keys",
        lambda keys: np.zeros(len(keys[0]), np.int64),
    ):
        player.play(["a", "b", "c"], 0, LONG, None)
    (run,) = player.table.current.runs
    stored = run.take(np.arange(3), keys=True).keys[0].to_pylist()
    assert run.take(np.array([2, 0]), keys=True).keys[0].to_pylist() == [stored[2], stored[0]]


def test_times_of_rows_of_one_hash_are_read_in_any_order():
    with patch(
        "idlestate.backends.shards.steps_by_key.hash_keys",
        lambda keys: np.zeros(len(keys[0]), np.int64),
    ):
        records = Steps.from_records(SPEC, [pa.array(["a", "b", "c", "d"])], np.arange(4), {})
    table = ShardTable.empty(SPEC).apply(records, LONG, None, 0, APART).table
    (run,) = restored(table).current.runs
    at = np.array([0, 2, 1, 3])
    assert (
        run.lives_at(at).written_at_ms.tolist()
        == run.take(at, keys=False).lives.written_at_ms.tolist()
    )


@pytest.mark.parametrize("size", [1, 20_000])
def test_no_more_bytes_are_gathered_at_once_than_asked(size):
    apart, together = (replace(merge, segment_bytes=size) for merge in (APART, TOGETHER))
    most = max(size, 2_000)
    player = Player(apart)
    keys = [f"{at:01000}" for at in range(100)]
    for at in range(9):
        player.play(keys[at * 10 : at * 10 + 20], at, LONG, None)
    player.play(keys[:1], 9, LONG, None, together)
    (run,) = player.table.current.runs
    assert max(run.stored.nbytes(*rows) for rows in pairwise(run.stored.starts.tolist())) <= most
    found, since = [], LOWEST_HASH
    with patch.object(Run, "take", autospec=True, side_effect=Run.take) as taken:
        while since is not None:
            rows, since = player.table.current.open_rows(since, 1000, size)
            assert rows.nbytes <= most
            found += rows.keys[0].to_pylist()
    assert sorted(found) == keys
    assert sum(len(call.args[1]) for call in taken.call_args_list) == len(keys)  # each row once
    player.play(keys[:40], 10, LONG, None)
    changes = player.play([], 11, LONG, 10**6).changes
    assert sorted(player.expired) == keys
    assert max(part.nbytes for part in changes.to_batches()) <= most + 2_000


def test_a_sweep_that_reaches_the_first_deadline_closes_its_row_and_no_other_does():
    def sweeps_per_run():
        current = player.table.current
        return [len(run.closed_by(current.sweeps)) for run in current.runs]

    player = Player()
    player.play(["a"], 0, SHORT, None)
    player.play(["b"], 5, SHORT, 9)
    assert sweeps_per_run() == [0, 0]
    player.play(["c"], 6, SHORT, 10)
    assert sweeps_per_run() == [1, 0, 0]
    assert player.expired == ["a"]


def test_next_end_is_never_late():
    player = Player()
    player.play(["a"], 0, SHORT, None)
    player.play(["b"], 3, SHORT, None)
    assert player.table.current.next_end_ms(SHORT) == 10
    player.play(["a"], 4, SHORT, None)
    assert player.table.current.next_end_ms(SHORT) in (10, 13)  # the old row of a may still count
    player.play([], 0, SHORT, 10)
    assert player.table.current.next_end_ms(SHORT) == 13
    assert player.table.current.next_end_ms(LONG) == 103
    player.play([], 0, SHORT, 14)
    assert player.table.current.next_end_ms(SHORT) == FOREVER_MS


@pytest.mark.parametrize("policy", [SHORT, OFF])
@pytest.mark.parametrize("with_filter", [False, True])
def test_the_writer_of_a_run_knows_of_it_what_a_reader_reads(policy, with_filter):
    names = [f"key {at}" for at in range(5_000)]
    rows = ShardTable.empty(SPEC).apply(steps(names, 0), policy, None, 0, APART).current.fresh
    layout = RowLayout.of(SPEC.schema, extras_of(rows, SPEC.schema))
    parts = [
        Segment.of(PackedRows.of(part, SPEC.schema, layout), policy, with_filter=with_filter)
        for part in (rows.slice(0, 3_000), rows.slice(3_000, 5_000))
    ]
    sink = pa.BufferOutputStream()
    count, index = encode_run(parts, SPEC.schema, policy, sink)
    read = decode_run(Whole(sink.getvalue()), SPEC.schema, 7)
    assert count == len(read) == 5_000
    assert index.policy == read.policy
    assert index.layout.schema.equals(read.stored.layout.schema)
    for written, found in zip(index.segments, read.stored.segments, strict=True):
        for name, value in written._asdict().items():
            assert np.array_equal(value, getattr(found, name)), name


def test_a_run_of_another_version_or_half_of_one_is_refused(monkeypatch: pytest.MonkeyPatch):
    player = Player()
    player.play(["a"], 0, SHORT, None)
    (run,) = player.table.current.runs
    run.need_all()
    data = run.source.data
    for part in (data.slice(0, data.size // 2), data.slice(0, 4), data.slice(0, 0)):
        with pytest.raises(RunError, match="not a complete run"):
            decode_run(Whole(part), SPEC.schema, 0)
    other = TableSpec((("other", pa.string()),), SPEC.kind)
    with pytest.raises(RunError, match="a checkpoint keeps its keys"):
        decode_run(Whole(data), other.schema, 0)
    text = TableSpec(SPEC.keys, aggregation({"n": "max(v)"}, {"v": pa.string()}))
    with pytest.raises(RunError, match="a0_0 is of type int64, which cannot be read as string"):
        decode_run(Whole(data), text.schema, 0)
    monkeypatch.setattr(run_codec, "_VERSION", b"next")
    with pytest.raises(RunError, match="use the version of idlestate that wrote it"):
        decode_run(Whole(data), SPEC.schema, 0)
