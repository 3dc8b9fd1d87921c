"""A shard through batches without Spark: what an attempt writes, and what a replay does again."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.checkpoint.operator_layout import OperatorLayout, read_layout, write_layout
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.files.run_store import RunStore
from idlestate.backends.files.spark_logs import (
    has_data,
    newest_batch,
    owed_sweep,
    pinned_partitions,
    plan_end,
    read_batch_times,
    source_offsets,
)
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.packet_codec import KeptPacketError, encode_packet
from idlestate.backends.shards.row_counts import RowCounts
from idlestate.backends.shards.shard_batch import Advanced, advance
from idlestate.backends.shards.shard_record import OPEN, Dropped, RecordError, ShardRecord
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.errors import DamagedStateError, RefusedError
from idlestate.pipeline.spark.task_errors import marked, plain_message
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain
from idlestate.retention.policy_version import PolicyVersion
from tests.pipeline.offset_logs import plan

SPEC = TableSpec(
    keys=(("user", pa.string()),),
    kind=aggregation({"n": "count", "top": "max(amount)"}, {"amount": pa.int64()}),
)
POLICY = PolicyVersion(
    1, 0, Policy(idle_min_ms=10, idle_max_ms=20, remember_ms=FOREVER_MS, min_gap_ms=0)
)
PROCESSING = PolicyVersion(1, 0, replace(POLICY.policy, time=TimeDomain.PROCESSING))


def packet(users: Sequence[str], times_ms: Sequence[int]) -> bytes:
    keys = [pa.array(users, pa.string())]
    amounts = pa.array(range(len(users)), pa.int64())
    times = np.array(times_ms, dtype=np.int64)
    return encode_packet(Steps.from_records(SPEC, keys, times, {"amount": amounts}))


def step(
    state: ShardRecord,
    files: RunFiles | None,
    packets: Sequence[bytes],
    batch_id: int,
    watermark_ms: int = -1,
    *,
    time_ms: int = 0,
    policy: PolicyVersion = POLICY,
) -> Advanced:
    times = BatchTimes(batch_id, watermark_ms, time_ms)
    return advance(SPEC, state, files, packets, {"": RowCounts(input=1)}, times, policy)


def rows(advanced: Advanced) -> list[tuple[str, str, int]]:
    return [
        (row["user"], row["change"], row["n"])
        for cell in advanced.cells
        for row in pa.ipc.open_stream(cell).read_all().to_pylist()
    ]


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    return RunFiles(Folder(str(tmp_path)), 3)


def names(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "3").iterdir()}


def test_a_replay_writes_new_files_and_says_the_same(tmp_path: Path, files: RunFiles) -> None:
    first = step(ShardRecord("clicks", 3), files, [packet(["a", "b"], [5, 6])], 0)
    attempts = [step(first.record, files, [packet(["b", "c"], [7, 8])], 1) for _ in range(2)]
    one, two = (each.record for each in attempts)
    assert rows(attempts[0]) == rows(attempts[1])
    (old,), (of_one,), (of_two,) = (each.current.runs for each in (first.record, one, two))
    assert of_one.name != of_two.name
    assert of_one.checksum == of_two.checksum
    assert names(tmp_path) == {old.name, of_one.name, of_two.name}
    # The second attempt won: what the first left goes, once batch 1 is committed.
    after = files.remove_unwanted(two, 2, retain_batches=100, orphans=True)
    assert names(tmp_path) == {old.name, of_two.name}
    assert [each.name for each in after.dropped] == [old.name]


def test_a_dropped_file_goes_when_no_retained_batch_names_it(
    tmp_path: Path, files: RunFiles
) -> None:
    first = step(ShardRecord("clicks", 3), files, [packet(["a"], [5])], 0).record
    second = step(first, files, [packet(["a"], [6])], 1).record
    (old,) = first.current.runs
    assert second.dropped == (Dropped(old.name, 1, old.bytes),)
    # With two batches retained, batch 3 may still go back to the state before batch 1 ... 2.
    for batch_id, is_there in ((2, True), (3, True), (4, False)):
        files.remove_unwanted(second, batch_id, retain_batches=2, orphans=False)
        assert (old.name in names(tmp_path)) == is_there, batch_id


def test_nothing_is_written_when_nothing_changes(tmp_path: Path, files: RunFiles) -> None:
    first = step(ShardRecord("clicks", 3), files, [packet(["a"], [5])], 0).record
    before = names(tmp_path)
    quiet = step(first, files, [packet([], [])], 1, watermark_ms=10)
    assert names(tmp_path) == before
    assert quiet.record.current.runs == first.current.runs
    assert list(quiet.cells) == []
    assert quiet.record.next_end_ms == 25


def test_the_last_life_leaves_no_file(tmp_path: Path, files: RunFiles) -> None:
    first = step(ShardRecord("clicks", 3), files, [packet(["a"], [5])], 0).record
    swept = step(first, files, [], 1, watermark_ms=25)
    assert rows(swept) == [("a", "expire", 1)]
    assert swept.record.current.runs == ()
    assert swept.record.live_keys == 0
    assert swept.record.next_end_ms == FOREVER_MS
    assert swept.record.remembered.live == 1
    back = step(swept.record, files, [packet(["a"], [30])], 2, watermark_ms=25)
    assert back.record.tally.returning_keys == 1
    assert back.record.keys_ever_seen(POLICY.policy) == 1


def test_a_batch_writes_what_it_touches_and_opens_no_file_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, opened = Folder(str(tmp_path)), []
    really_open = RunStore.open_written
    monkeypatch.setattr(
        RunStore,
        "open_written",
        lambda store, ref: opened.append(ref.name) or really_open(store, ref),
    )
    monkeypatch.setattr(RunStore, "open", lambda _, ref: pytest.fail(f"{ref} is read again"))
    users = [f"user {at}" for at in range(5000)]
    state = ShardRecord("clicks", 3)
    for batch_id in range(5):
        files = RunFiles(checkpoint, 3, "a start")
        assert files.is_first_visit == (batch_id == 0)
        named = set(state.runs)
        some = users if batch_id == 0 else users[batch_id * 10 : batch_id * 10 + 10]
        state = step(state, files, [packet(some, [5] * len(some))], batch_id).record
        written = [ref for ref in state.runs if ref not in named]
        if batch_id:
            assert sum(ref.rows for ref in written) <= 40
    assert state.live_keys == 5000
    assert state.current.runs[0].version == 0
    assert len(opened) == len(set(opened)) == 5
    # Another start of the query trusts nothing that was open before.
    assert RunFiles(checkpoint, 3, "another start").is_first_visit


def test_a_policy_switched_on_later_reaches_keys_never_touched_again(files: RunFiles) -> None:
    """Through the bytes of the state; one that grants longer lives brings none back."""
    off = PolicyVersion(1, 0, Policy())
    longer = PolicyVersion(3, 0, Policy(idle_min_ms=1000, idle_max_ms=1000, min_gap_ms=0))
    begun = step(ShardRecord("clicks", 3), files, [packet(["a", "b"], [5, 6])], 0, policy=off)
    state = begun.record
    state = step(state, files, [packet(["b"], [30])], 1, watermark_ms=20, policy=off).record
    assert state.live_keys == 2
    on = step(ShardRecord.decode(state.encode()), files, [], 2, watermark_ms=30)
    assert rows(on) == [("a", "expire", 1)]
    again = step(ShardRecord.decode(on.record.encode()), files, [], 3, 31, policy=longer)
    assert rows(again) == []
    assert again.record.live_keys == 1
    assert again.record.next_end_ms <= 1030


def test_processing_time_does_not_run_back(files: RunFiles) -> None:
    first = step(
        ShardRecord("clicks", 3), files, [packet(["a"], [0])], 0, time_ms=1000, policy=PROCESSING
    )
    # The machine's clock was set back between the batches.
    second = step(first.record, files, [packet(["b"], [0])], 1, time_ms=400, policy=PROCESSING)
    assert second.record.time_ms == 1000
    third = step(second.record, files, [packet(["c"], [0])], 2, time_ms=1020, policy=PROCESSING)
    assert sorted(rows(third)) == [("a", "expire", 1), ("b", "expire", 1), ("c", "update", 1)]


def test_state_is_read_back_as_it_was_written(files: RunFiles) -> None:
    state = step(ShardRecord("clicks", 3), files, [packet(["a", "b"], [5, 6])], 0).record
    state = step(state, files, [packet(["a"], [60])], 1, watermark_ms=30).record
    state = replace(state, timer_ms=77, dropped=(Dropped("x.arrow", 1, 77),))
    found = ShardRecord.decode(state.encode())
    assert found == state
    assert (found.seen == state.seen).all()


def test_state_of_another_version_is_refused() -> None:
    value = b"IDS9" + ShardRecord("clicks", 3).encode()[4:]
    with pytest.raises(RecordError, match="another version of idlestate; use"):
        ShardRecord.decode(value)


def test_a_run_of_another_operator_is_refused(tmp_path: Path, files: RunFiles) -> None:
    state = step(ShardRecord("clicks", 3), files, [packet(["a"], [5])], 0).record
    other = TableSpec((("shop", pa.string()),), SPEC.kind)
    with pytest.raises(DamagedStateError, match=r"\.arrow: its keys are "):
        RunFiles(Folder(str(tmp_path)), 3).read(OPEN, state.current.runs[0], other.schema)


# ------------------------------------------------------------------ what Spark's logs say


def log(folder: Path, name: str, number: int, **facts: object) -> None:
    path = folder / name / str(number)
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"v1\n{json.dumps(facts)}\n")


def test_times_and_partitions_come_from_the_offset_log(tmp_path: Path) -> None:
    checkpoint = Folder(str(tmp_path))
    assert newest_batch(checkpoint, "offsets") is None
    assert pinned_partitions(checkpoint) is None
    for number in (9, 10):
        conf = {"spark.sql.shuffle.partitions": "3"}
        log(
            tmp_path,
            "offsets",
            number,
            batchWatermarkMs=number,
            batchTimestampMs=100 + number,
            conf=conf,
        )
    (tmp_path / "offsets" / ".10.crc").write_bytes(b"")
    assert newest_batch(checkpoint, "offsets") == 10
    assert read_batch_times(checkpoint, 9) == BatchTimes(9, 9, 109)
    assert pinned_partitions(checkpoint) == 3


@pytest.mark.parametrize(
    ("committed", "next_ms", "owed"),
    [
        pytest.param(4, 50, 4, id="watermark-moved-after-the-last-batch"),
        pytest.param(4, 40, None, id="swept-already"),
        pytest.param(3, 50, None, id="a-batch-is-in-flight"),
        pytest.param(None, 0, None, id="nothing-committed"),
    ],
)
def test_a_sweep_is_owed_after_the_last_batch_with_data(
    tmp_path: Path, committed: int | None, next_ms: int, owed: int | None
) -> None:
    log(tmp_path, "offsets", 4, batchWatermarkMs=40, batchTimestampMs=0, conf={})
    if committed is not None:
        log(tmp_path, "commits", committed, nextBatchWatermarkMs=next_ms)
    assert owed_sweep(Folder(str(tmp_path))) == owed


def test_the_batch_that_ends_the_input_has_no_data_and_the_highest_time(tmp_path: Path) -> None:
    checkpoint = Folder(str(tmp_path))
    plan(tmp_path, 3, 100, read_up_to=7)
    plan(tmp_path, 4, 200, read_up_to=9)
    plan_end(checkpoint, 5_000)
    assert newest_batch(checkpoint, "offsets") == 5
    assert read_batch_times(checkpoint, 5) == BatchTimes(5, 5_000, 200)
    assert has_data(checkpoint, 4)
    assert not has_data(checkpoint, 5)


def test_the_batch_that_ends_the_input_visits_the_shards_of_a_sidecar(tmp_path: Path) -> None:
    checkpoint = Folder(str(tmp_path))
    plan(tmp_path, 4, 200, read_up_to=9)
    with (tmp_path / "offsets" / "4").open("a") as file:
        file.write('\n{"reached_ms": 40}\n{"seq": 3}')
    plan_end(checkpoint, 5_000)
    assert source_offsets(checkpoint, 5) == [
        '{"logOffset": 9}',
        '{"reached_ms": 5000}',
        '{"seq": 3}',
    ]


# ------------------------------------------------------------------ layout and policies


def test_a_layout_says_again_what_the_table_keeps(tmp_path: Path) -> None:
    checkpoint = Folder(str(tmp_path))
    layout = OperatorLayout.of(SPEC, TimeDomain.EVENT, partitions=2, shards=4, retain_batches=10)
    write_layout(checkpoint, "clicks", layout)
    assert read_layout(checkpoint, "clicks") == layout
    assert read_layout(checkpoint, "clicks").at(0).spec() == SPEC
    text = (tmp_path / "idlestate/clicks/layout.json").read_text()
    (tmp_path / "idlestate/clicks/layout.json").write_text(
        text.replace('"format": 3', '"format": 2')
    )
    with pytest.raises(RefusedError, match="use the version of idlestate that wrote it"):
        read_layout(checkpoint, "clicks")


def test_the_journal_says_which_policy_held_when(tmp_path: Path) -> None:
    checkpoint = Folder(str(tmp_path))
    policies = [Policy(ttl_ms=ms) for ms in (10, 20, 20, 10)]
    for policy, effective_ms in zip(policies, (100, 200, 300, 400), strict=True):
        PolicyJournal(checkpoint, "clicks").append(policy, effective_ms)
    journal = PolicyJournal(checkpoint, "clicks")
    # The third is the second again: no version of its own.
    assert [each.version for each in journal.versions] == [1, 2, 3]
    held = {t_ms: journal.at(t_ms).policy.ttl_ms for t_ms in (0, 100, 199, 200, 399, 400)}
    assert held == {0: 10, 100: 10, 199: 10, 200: 20, 399: 20, 400: 10}


def test_an_error_of_a_task_names_the_operator_whose_waiting_rows_cannot_be_read() -> None:
    error = marked(KeptPacketError("rows that wait are stored otherwise"), "clicks")
    told = plain_message(str(error))
    assert told == "operator 'clicks': rows that wait are stored otherwise"


def test_a_plain_message_is_found_inside_spark_s() -> None:
    text = f"Job aborted: Traceback ...\n{marked(RefusedError('do this: [a]'))!r}\n\tat org.apache"
    assert plain_message(text) == "do this: [a]"
    assert plain_message("Job aborted: something else") is None
