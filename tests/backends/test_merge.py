"""Which runs are merged: few runs, bounded space, few rewrites, not all shards at once."""

from dataclasses import replace

import pytest

from idlestate.backends.checkpoint.shard_partitions import shard_numbers
from idlestate.backends.runs.compaction import MergePolicy, stagger

PLAIN = MergePolicy()


class Sizes:
    """A shard's runs as sizes alone: every batch touches some of its keys, evenly."""

    def __init__(self, keys: int, merge: MergePolicy) -> None:
        self.merge, self.keys, self.runs = merge, keys, [keys]
        self.written = 0
        self.full: list[int] = []
        self.most_rows = self.most_runs = 0

    def take(self, batch_id: int, touched: int) -> None:
        is_turn = self.merge.is_turn(batch_id)
        taken = self.merge.runs_taken(touched, self.runs, self.keys, is_turn=is_turn)
        stay = len(self.runs) - taken
        new = self.keys if stay == 0 else touched + sum(self.runs[stay:])
        self.runs = [*self.runs[:stay], new]
        self.written += new
        if stay == 0:
            self.full.append(batch_id)
        self.most_rows = max(self.most_rows, sum(self.runs))
        self.most_runs = max(self.most_runs, len(self.runs))


@pytest.mark.parametrize("stagger", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("keys", [12_500, 125_000, 1_250_000])
def test_space_runs_and_rewrites_stay_bounded(keys, stagger):
    """1,250 keys a batch, which is 10,000 in a table of eight shards."""
    shard = Sizes(keys, replace(PLAIN, stagger=stagger))
    batches = max(100, 3 * keys // 1250)
    for at in range(batches):
        shard.take(at, 1250)
    assert shard.most_rows <= 1.4 * keys
    assert shard.most_runs <= PLAIN.most_runs
    assert shard.written <= 10 * 1250 * batches


def test_a_dense_batch_is_written_once_with_everything():
    assert PLAIN.runs_taken(32_000, [125_000], 125_000) == 1
    assert PLAIN.runs_taken(31_000, [125_000], 125_000) == 0
    assert PLAIN.runs_taken(1_000, [125_000], 125_000) == 0


def test_nothing_new_merges_nothing_until_space_is_wanted():
    assert PLAIN.runs_taken(0, [9_000, 500], 9_400) == 0
    assert PLAIN.runs_taken(0, [9_000, 500], 6_800) == 0
    assert PLAIN.runs_taken(0, [9_000, 500], 6_700) == 2
    assert PLAIN.runs_taken(0, [9_000, 500], 0) == 2
    assert PLAIN.runs_taken(0, [], 0) == 0


def test_small_tables_do_not_care_for_space():
    assert PLAIN.runs_taken(0, [1_000], 10) == 0
    assert PLAIN.runs_taken(0, [1_025], 10) == 1


def test_runs_are_never_more_than_allowed():
    """Also when batches get smaller and smaller."""
    merge, runs = replace(PLAIN, dense=1e9, space=1e9, most_runs=3), [1_000_000]
    for fresh in (100_000, 10_000, 1_000, 100, 10, 1):
        taken = merge.runs_taken(fresh, runs, 10**9)
        stay = len(runs) - taken
        runs = [*runs[:stay], fresh + sum(runs[stay:])]
        assert len(runs) <= 3


@pytest.mark.parametrize("keys", [250_000, 1_250_000])
def test_no_two_shards_of_a_large_table_merge_everything_in_one_batch(keys):
    numbers = shard_numbers(8, 2)
    shards = [Sizes(keys, replace(PLAIN, stagger=stagger(number))) for number in numbers]
    for at in range(2000):
        for shard in shards:
            shard.take(at, 1250)
    at_once = [sum(batch in shard.full for shard in shards) for batch in range(2000)]
    assert sum(at_once) >= 24
    assert max(at_once) == 1


def test_a_table_merges_in_its_turn_what_would_be_too_large_before_the_next():
    def taken(run, fresh, is_turn):
        return PLAIN.runs_taken(fresh, [100_000, run], 100_000, is_turn=is_turn)

    assert taken(24_000, 1_000, True) == 2
    assert taken(22_000, 1_000, True) == 0
    assert taken(24_000, 1_000, False) == 0
    assert taken(39_000, 1_000, False) == 0
    assert taken(39_001, 1_000, False) == 2
    # A table that is soon too large anyhow does not merge twice as often.
    assert taken(10_000, 9_000, True) == 0
