"""`explain` and `plan` of joins agree with their rows, one by one, and change nothing."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import idlestate
from idlestate import KeyState, Policy
from idlestate.backends.checkpoint.operator_layout import OperatorLayout, write_layout
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.checkpoint.runs_folder import runs_of
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.key_details import KeyDetails
from idlestate.backends.shards.key_rows_of_joins import SideRows
from idlestate.backends.shards.operator_steps import JoinStep
from idlestate.backends.shards.packet_codec import encode_packet
from idlestate.backends.shards.planned_removals import HORIZONS_MS
from idlestate.backends.shards.shard_batch import advance
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.errors import RefusedError
from idlestate.metrics.key_answer import answer_of
from idlestate.pipeline.policy_plans import plan_for, refuse_shrink
from idlestate.retention.policy import TimeDomain
from idlestate.retention.policy_version import PolicyVersion
from idlestate.service.cli import main
from tests.backends.stream_join_rows import Row, spec_of, steps_of
from tests.pipeline.made_checkpoint import tree_hash

UID = "pairs"
Span = int | None
BETWEENS = st.sampled_from([None, (0, 0), (-3, 5), (2, 90), (-100, 3_600_000)])
SPANS = st.sampled_from([None, 5, 40, 3_600_000])
ROWS = st.builds(
    Row, st.integers(0, 1), st.sampled_from("abc"), st.integers(1000, 1060), st.integers(0, 9)
)


def policy_of(span_ms: Span) -> Policy:
    return Policy() if span_ms is None else Policy(ttl_ms=span_ms)


def checkpoint_of(
    path: Path,
    between: tuple[int, int] | None,
    spans: tuple[Span, Span],
    batches: list[tuple[list[Row], int]],
    reached_ms: int,
) -> Folder:
    """A checkpoint of a full join as a query leaves it; each batch has its watermark."""
    checkpoint, spec = Folder(str(path)), spec_of("full", between)
    layout = OperatorLayout.of(spec, TimeDomain.EVENT, 1, 1, retain_batches=3)
    write_layout(checkpoint, UID, layout)
    left, right = map(policy_of, spans)
    in_force = PolicyJournal(checkpoint, UID).append(left, 0, right)
    record = ShardRecord(UID, layout.shards[0])
    for batch_id, (rows, watermark_ms) in enumerate(batches):
        metadata = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": batch_id, "conf": {}}
        lines = ("v1", json.dumps(metadata), json.dumps({"logOffset": batch_id}))
        checkpoint.write(f"offsets/{batch_id}", "\n".join(lines).encode())
        files = RunFiles(runs_of(checkpoint, UID, layout), record.shard)
        packets = [encode_packet(steps_of(layout.at(0).spec(), rows))]
        at = BatchTimes(batch_id, watermark_ms, batch_id)
        version = PolicyVersion(1, 0, in_force.policy, right=right)
        advanced = advance(spec, record, files, packets, {}, at, version, JoinStep())
        list(advanced.cells)
        record = ShardRecord.decode(files.save(advanced.record, batch_id))
        commit = ("v1", json.dumps({"nextBatchWatermarkMs": reached_ms}))
        checkpoint.write(f"commits/{batch_id}", "\n".join(commit).encode())
    return checkpoint


def end_ms(row: Row, between: tuple[int, int] | None, spans: tuple[Span, Span]) -> int | None:
    """When a row ends: the first millisecond at which it is not needed."""
    ends = [row.t_ms + span for span in (spans[row.side],) if span is not None]
    if between is not None:
        ends.append(row.t_ms + (-between[0] if row.side else between[1]))
    return min(ends, default=None)


@settings(max_examples=40, deadline=None)
@given(
    BETWEENS, st.tuples(SPANS, SPANS), st.tuples(SPANS, SPANS), st.lists(ROWS, max_size=10),
    st.lists(ROWS, max_size=10), st.integers(990, 1100), st.integers(0, 100), st.data(),
)  # fmt: skip
def test_explain_and_plan_tell_of_each_row(
    between, spans, other_spans, early, later, watermark_ms, passed_ms, data
) -> None:
    later = [row for row in later if row.t_ms > watermark_ms]
    now_ms = watermark_ms + passed_ms
    with tempfile.TemporaryDirectory() as folder:
        batches = [(early, 0), (later, watermark_ms)]
        checkpoint = checkpoint_of(Path(folder), between, spans, batches, now_ms)
        before = tree_hash(Path(folder))
        came = [*((row, 0) for row in early), *((row, watermark_ms) for row in later)]
        kept = []
        for row, _ in came:
            ends = end_ms(row, between, spans)
            if ends is None or ends > watermark_ms:
                kept.append((row, ends))
        for key in "abcd":
            found = idlestate.explain([key], folder)
            assert found.now_ms == now_ms
            assert (
                KeyDetails.from_json(json.loads(json.dumps(found.details.to_json())))
                == found.details
            )
            for at, side in enumerate(("left", "right")):
                own = [each for each in kept if (each[0].key, each[0].side) == (key, at)]
                assert found.details.sides.get(side) == told(own, now_ms, between, spans)
            own = [each for each in kept if each[0].key == key]
            is_over = all(ends is not None and ends <= now_ms for _, ends in own)
            if own:
                assert found.details.state is (KeyState.OVERDUE if is_over else KeyState.OPEN)
                last = None if any(ends is None for _, ends in own) else max(e for _, e in own)
                assert found.details.deadline_ms == last
            elif any(row.key == key for row, _ in came):
                assert found.details.state is KeyState.FORGOTTEN_OR_NEVER_SEEN
            else:
                assert found.details.state in (
                    KeyState.NEVER_SEEN,
                    KeyState.FORGOTTEN_OR_NEVER_SEEN,
                )
        plan = plan_for(
            checkpoint, UID, policy_of(other_spans[0]), 0, right=policy_of(other_spans[1])
        )
        assert plan.stored_keys == len(kept)
        for in_ms, each in zip(HORIZONS_MS, plan.horizons, strict=True):
            gone = Counter()
            for row, ends in kept:
                new_end = end_ms(row, between, other_spans)
                by_new = new_end is not None and new_end <= now_ms + in_ms
                by_old = ends is not None and ends <= now_ms + in_ms
                gone.update(new=by_new, current=by_old, more=by_new and not by_old)
            counts = (each.new.keys, each.current.keys, each.more.keys)
            assert counts == (gone["new"], gone["current"], gone["more"])
        assert tree_hash(Path(folder)) == before


def told(kept, now_ms, between, spans) -> SideRows | None:
    """What is told of these rows of one input."""
    if not kept:
        return None
    ends = [each for _, each in kept]
    times = [row.t_ms for row, _ in kept]
    known = [each for each in ends if each is not None]
    last = None if len(known) < len(ends) else max(known)
    reason = None
    if last is not None:
        row = next(row for row, each in kept if each == last)
        span = spans[row.side]
        reason = "ttl" if span is not None and row.t_ms + span == last else "no_partner"
    overdue = sum(each <= now_ms for each in known)
    first = min(known, default=None)
    return SideRows(len(kept), overdue, min(times), max(times), first, last, reason)


# ---- by name


def test_the_sentence_of_a_key_names_the_rows_of_each_input(tmp_path: Path) -> None:
    rows = [Row(0, "a", 1000, 1), Row(0, "a", 1020, 2), Row(1, "a", 1010, 3)]
    checkpoint_of(tmp_path, (-10, 20), (None, None), [(rows, 0)], 1015)
    answer = answer_of(idlestate.explain({"k": "a"}, tmp_path))
    assert answer.sentence == (
        "This key has 2 left rows and 1 right row in state. The last row is kept until "
        "1970-01-01 00:00:01 UTC, when no row can come any more that matches it."
    )
    assert dict(answer.facts)["Left rows"] == "2, 0 of them overdue"
    later = idlestate.explain({"k": "a"}, tmp_path)
    assert (later.details.deadline_ms, later.details.reason) == (1040, "no_partner")


def test_the_command_prints_the_rows_of_each_input(tmp_path: Path) -> None:
    rows = [Row(0, "a", 1000, 1), Row(0, "a", 1020, 2), Row(1, "a", 1010, 3)]
    checkpoint_of(tmp_path, (-10, 20), (None, 5), [(rows, 0)], 1015)
    done = CliRunner().invoke(main, ["explain", str(tmp_path), "--key", "a"])
    day = "1970-01-01 00:00:01"
    assert [line.strip() for line in done.stdout.splitlines()[1:]] == [
        f"left rows    2, 0 of them overdue; of {day}.000+00:00 to {day}.020+00:00",
        f"the next one ends at {day}.020+00:00",
        f"right rows   1, 1 of them overdue; of {day}.010+00:00 to {day}.010+00:00",
        f"the next one ends at {day}.015+00:00",
        f"deadline     {day}.040+00:00, by no_partner",
        "policy       version 1, no retention",
        "right policy ttl 5ms",
        f"time         {day}.015+00:00",
    ]


def test_rows_that_end_by_themselves_do_not_count_against_a_changed_policy(tmp_path: Path) -> None:
    """An interval ends them: a shorter policy that ends none of them earlier removes nothing."""
    rows = [Row(at % 2, "a", 1000 + at, at) for at in range(10)]
    checkpoint = checkpoint_of(tmp_path, (-50, 50), (None, None), [(rows, 0)], 1055)
    refuse_shrink(checkpoint, UID, Policy(ttl_ms=50), 0)
    with pytest.raises(RefusedError, match=r"remove 4 of 4 live keys at once"):
        refuse_shrink(checkpoint, UID, Policy(ttl_ms=20), 0)


def test_the_policies_of_both_inputs_are_planned_for_as_a_file_gives_them(tmp_path: Path) -> None:
    rows = [Row(at % 2, "a", 1000 + at, at) for at in range(10)]
    checkpoint_of(tmp_path / "checkpoint", None, (None, 3_600_000), [(rows, 0)], 1300)
    file = tmp_path / "pairs.yaml"
    source = "{path: in, format: json, schema: {t: timestamp, k: string, %s: bigint}}"
    file.write_text(
        "version: 1\npolicies: {long: {ttl: 1d}, short: {ttl: 200ms}}\n"
        f"pipelines:\n  {UID}:\n    kind: join\n    source: {source % 'l'}\n"
        f"    right:\n      source: {source % 'r'}\n      event_time: t\n      policy: short\n"
        "    key: [k]\n    event_time: t\n    delay: 1s\n    policy: long\n"
        "    checkpoint: checkpoint\n    sinks: {results: results}\n"
    )
    (plan,) = idlestate.plan(file, tmp_path / "checkpoint")
    assert plan.right == (Policy(ttl="1h"), Policy(ttl="200ms"))
    assert plan.horizons[0].more.keys == 5
    by_hand = idlestate.plan(
        Policy(ttl="1d"), tmp_path / "checkpoint", right_policy=Policy(ttl="200ms")
    )
    assert by_hand[0].horizons == plan.horizons
    done = CliRunner().invoke(main, ["plan", str(file), "--against", str(tmp_path / "checkpoint")])
    assert done.stdout.splitlines()[:2] == [
        f"{UID}: no retention -> ttl 1d",
        "  right rows: ttl 1h -> ttl 200ms",
    ]
