"""When a shard's keys end and were used last: looked at now and then, and true as of the look."""

from pathlib import Path

import pytest

from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.shards import key_ages
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.shard_statistics import ShardStatistics
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.policy_version import PolicyVersion
from idlestate.retention.time_bins import KeyTimes
from tests.backends.test_shard_batch import packet, step

S_MS, H_MS = 1000, 3_600_000
POLICY = Policy(idle_min_ms=H_MS, idle_max_ms=2 * H_MS)
IN_FORCE = PolicyVersion(1, 0, POLICY)
NOW_MS = 1_800_000_000_000
USERS = [f"user-{number}" for number in range(40)]


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(Folder(str(tmp_path)), 3)


def play(record, files, users, t_ms, batch_id, *, now_ms, policy=IN_FORCE, watermark_ms=-1):
    packets = [packet(users, [t_ms] * len(users))] if users else []
    found = step(record, files, packets, batch_id, watermark_ms, time_ms=now_ms, policy=policy)
    return ShardRecord.decode(found.record.encode())


def used_since(record: ShardRecord, t_ms: int) -> int:
    times = KeyTimes([record.ages.accesses])
    return times.keys - int(times.count([t_ms - 1])[0])


def test_all_rows_are_looked_at_once_a_minute(files: RunFiles) -> None:
    record, looks_ms = play(ShardRecord("clicks", 3), files, USERS, NOW_MS, 0, now_ms=NOW_MS), []
    for at in range(1, 400):
        now_ms = NOW_MS + at * S_MS // 2
        record = play(record, files, [], 0, at, now_ms=now_ms)
        if record.ages.seen_ms == now_ms:
            looks_ms.append(now_ms - NOW_MS)
    assert looks_ms == [s * S_MS for s in (60, 120, 180)]


def test_keys_are_looked_at_again_when_an_eighth_of_them_changed(files: RunFiles) -> None:
    record, looks = play(ShardRecord("clicks", 3), files, USERS, NOW_MS, 0, now_ms=NOW_MS), []
    for at in range(1, 25):
        now_ms = NOW_MS + at * S_MS
        record = play(record, files, [USERS[at]], NOW_MS + at, at, now_ms=now_ms)
        if record.ages.seen_ms == now_ms:
            looks.append(at)
    assert looks == [6, 12, 18, 24]  # of 40 keys, more than 5


def test_batches_in_quick_succession_are_looked_at_once_a_second(files: RunFiles) -> None:
    record, looks_ms = ShardRecord("clicks", 3), []
    for at in range(12):
        now_ms = NOW_MS + at * S_MS // 4
        record = play(record, files, USERS, NOW_MS + at, at, now_ms=now_ms)
        if record.ages.seen_ms == now_ms:
            looks_ms.append(now_ms - NOW_MS)
    assert looks_ms == [0, 1000, 2000]


def test_due_keys_are_right_while_a_job_works_off_a_backlog(
    files: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an hour of events in each batch, one batch in two seconds, more keys in each."""
    monkeypatch.setattr(key_ages, "_SAMPLE_ROWS", 500)
    record = ShardRecord("clicks", 3)
    for at in range(12):
        users = [f"user-{at}-{number}" for number in range(400 + 50 * at)]
        t_ms = NOW_MS + at * H_MS // 2
        now_ms = NOW_MS + at * 2 * S_MS
        record = play(record, files, users, t_ms, at, now_ms=now_ms, watermark_ms=t_ms - 1)
        deadlines_ms = KeyTimes([record.ages.ends])
        due = int(deadlines_ms.count([t_ms + 24 * H_MS])[0] - deadlines_ms.count([t_ms - 1])[0])
        assert due == record.live_keys
        newest = int(deadlines_ms.count([t_ms + 2 * H_MS])[0]) - int(
            deadlines_ms.count([t_ms + 2 * H_MS - 1])[0]
        )
        assert newest == pytest.approx(len(users), rel=0.25)
    assert record.live_keys > 2000


def test_a_clock_that_runs_back_is_looked_at_anew(files: RunFiles) -> None:
    record = play(ShardRecord("clicks", 3), files, USERS, NOW_MS, 0, now_ms=NOW_MS)
    record = play(record, files, USERS[:3], NOW_MS + 7, 1, now_ms=NOW_MS - H_MS)
    assert record.ages.at_ms == NOW_MS - H_MS
    assert used_since(record, NOW_MS + 7) == 3


def test_rows_that_others_shadow_or_a_sweep_closed_do_not_count(files: RunFiles) -> None:
    record = play(ShardRecord("clicks", 3), files, USERS, NOW_MS, 0, now_ms=NOW_MS)
    used_ms = NOW_MS + 90 * 60 * S_MS
    record = play(record, files, USERS[:3], used_ms, 1, now_ms=NOW_MS + 60 * S_MS)
    assert len(record.current.runs) == 2
    assert used_since(record, 0) == 40
    assert used_since(record, used_ms) == 3
    swept_ms = NOW_MS + 2 * H_MS
    swept = play(record, files, [], 0, 2, now_ms=NOW_MS + H_MS, watermark_ms=swept_ms)
    assert swept.live_keys == used_since(swept, 0) == 3
    assert KeyTimes([swept.ages.ends]).count(
        [used_ms + 2 * H_MS - 1, used_ms + 2 * H_MS]
    ).tolist() == [0, 3]


def test_no_key_is_overdue_by_a_row_that_another_shadows(files: RunFiles) -> None:
    """The record may name the deadline of such a row; the figures do not, after a look."""
    record = play(ShardRecord("clicks", 3), files, USERS, NOW_MS, 0, now_ms=NOW_MS)
    for at, user in enumerate(USERS, start=1):
        record = play(record, files, [user], NOW_MS + H_MS + 1, at, now_ms=NOW_MS + at * 60 * S_MS)
    first_ms = NOW_MS + H_MS + 1 + 2 * H_MS
    shadowed = play(record, files, [], 0, 99, now_ms=NOW_MS + 100 * 60 * S_MS)
    assert ShardStatistics.of(shadowed, POLICY).next_end_ms == first_ms
    # What a batch writes between two looks lowers it.
    early = play(shadowed, files, ["early"], NOW_MS, 100, now_ms=NOW_MS + 100 * 60 * S_MS)
    assert early.ages.at_ms == shadowed.ages.at_ms
    assert ShardStatistics.of(early, POLICY).next_end_ms <= NOW_MS + 2 * H_MS


def test_another_policy_is_looked_at_at_once(files: RunFiles) -> None:
    record = play(ShardRecord("clicks", 3), files, USERS, NOW_MS, 0, now_ms=NOW_MS)
    brief = PolicyVersion(2, 0, Policy(ttl_ms=60 * S_MS))
    record = play(record, files, [], 0, 1, now_ms=NOW_MS + 1, policy=brief)
    assert record.ages.ends.upto_ms == [NOW_MS + 60 * S_MS]
    assert ShardStatistics.of(record, brief.policy).next_end_ms == NOW_MS + 60 * S_MS
    never = PolicyVersion(3, 0, Policy())
    record = play(record, files, [], 0, 2, now_ms=NOW_MS + 2, policy=never)
    assert KeyTimes([record.ages.ends]).count([NOW_MS, FOREVER_MS - 1, FOREVER_MS]).tolist() == [
        0,
        0,
        40,
    ]
    assert used_since(record, 0) == 40
    assert ShardStatistics.of(record, never.policy).next_end_ms == FOREVER_MS


def test_of_a_large_shard_some_rows_stand_for_all(
    files: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_ages, "_MOST_ROWS", 1000)
    users = [f"user-{number}" for number in range(8000)]
    record = play(ShardRecord("clicks", 3), files, users, NOW_MS, 0, now_ms=NOW_MS)
    record = play(record, files, users[:800], NOW_MS + 5, 1, now_ms=NOW_MS + H_MS)
    assert used_since(record, 0) == 8000
    assert used_since(record, NOW_MS + 5) == pytest.approx(800, rel=0.35)
    # Not all of them were seen, so only the table's own bound holds.
    assert ShardStatistics.of(record, POLICY).next_end_ms == record.next_end_ms


def test_a_sample_is_not_taken_for_the_first_deadline(
    files: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_ages, "_SAMPLE_ROWS", 10)
    late_ms, users = NOW_MS + 5 * H_MS, [f"user-{number}" for number in range(800)]
    record = play(ShardRecord("clicks", 3), files, ["early"], NOW_MS, 0, now_ms=NOW_MS)
    record = play(record, files, users, late_ms, 1, now_ms=NOW_MS + 2 * S_MS)
    assert record.ages.seen_ms == NOW_MS + 2 * S_MS
    assert KeyTimes([record.ages.ends]).count([late_ms]).tolist() == [0]  # the sample lacks it
    assert ShardStatistics.of(record, POLICY).next_end_ms <= NOW_MS + 2 * H_MS
    assert record.ages.at_ms == NOW_MS  # so all rows are looked at soon


def test_looks_change_no_row(files: RunFiles, tmp_path: Path) -> None:
    often, once = ShardRecord("clicks", 3), ShardRecord("clicks", 3)
    other = RunFiles(Folder(str(tmp_path / "other")), 3)
    for at in range(10):
        users, t_ms = USERS[at : at + 5], NOW_MS + at * H_MS // 2
        watermark_ms = t_ms - 1
        often = play(often, files, users, t_ms, at, now_ms=t_ms, watermark_ms=watermark_ms)
        once = play(once, other, users, t_ms, at, now_ms=NOW_MS, watermark_ms=watermark_ms)
    assert often.ages != once.ages
    plain = [[(ref.rows, ref.bytes, ref.checksum) for ref in each.runs] for each in (often, once)]
    assert plain[0] == plain[1]
    assert often.tally == once.tally
    assert (often.next_end_ms, often.live_keys) == (once.next_end_ms, once.live_keys)
