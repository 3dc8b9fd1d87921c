"""A checkpoint as a query leaves it, made of a case of the law without a JVM."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from idlestate.backends.checkpoint.operator_layout import OperatorLayout, write_layout
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.checkpoint.runs_folder import runs_of
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.batch_times import BatchTimes
from idlestate.backends.shards.packet_codec import encode_packet
from idlestate.backends.shards.shard_batch import advance
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.retention.policy_version import PolicyVersion
from tests.backends.law_cases import Case, times
from tests.backends.law_runner import by_shard, policy_of, spec_of, steps_of
from tests.reference import Record, Rule

UID, MINUTE_MS, START_MS = "law", 60_000, 1_740_960_000_000


def time_of(case: Case) -> TimeDomain:
    return TimeDomain.PROCESSING if case.at_batch_time else TimeDomain.EVENT


def policies_of(case: Case) -> list[Policy]:
    """The policy of each batch."""
    rules = [case.rule_of(at) for at in range(len(case.batches))]
    return [policy_of(rule, time=time_of(case)) for rule in rules]


def make_checkpoint(
    path: Path,
    case: Case,
    reached_ms: int = 0,
    *,
    uid: str = UID,
    spec: TableSpec | None = None,
) -> Folder:
    """Take in and commit all batches of a case.

    Args:
        path: where the checkpoint is to be.
        case: each batch is swept at its own sweep; none of them is None.
        reached_ms: the watermark after the last batch.
        uid: the operator.
        spec: what it is; None: what the case says.
    """
    checkpoint, spec = Folder(str(path)), spec or spec_of(case)
    layout = OperatorLayout.of(spec, time_of(case), 1, case.shards, retain_batches=3)
    write_layout(checkpoint, uid, layout)
    spec = layout.at(0).spec()
    policies = policies_of(case)
    PolicyJournal(checkpoint, uid).append(replace(policies[-1], chosen_by="selectors[0]"), 0)
    records = [ShardRecord(uid, shard) for shard in layout.shards]
    for batch_id, (batch, sweep) in enumerate(zip(case.batches, case.sweeps, strict=True)):
        assert sweep is not None
        at = BatchTimes(batch_id, sweep, max(times(batch)))
        metadata = {"batchWatermarkMs": sweep, "batchTimestampMs": at.time_ms, "conf": {}}
        lines = ("v1", json.dumps(metadata), json.dumps({"logOffset": batch_id}))
        checkpoint.write(f"offsets/{batch_id}", "\n".join(lines).encode())
        parts = by_shard(steps_of(spec, case, batch), case.shards)
        for number, steps in enumerate(parts):
            files = RunFiles(runs_of(checkpoint, uid, layout), records[number].shard)
            version = PolicyVersion(1, 0, policies[batch_id])
            record = files.remove_unwanted(records[number], batch_id, 3, orphans=False)
            record = advance(spec, record, files, [encode_packet(steps)], {}, at, version).record
            records[number] = ShardRecord.decode(files.save(record, batch_id))
        commit = ("v1", json.dumps({"nextBatchWatermarkMs": reached_ms}))
        checkpoint.write(f"commits/{batch_id}", "\n".join(commit).encode())
    return checkpoint


def make_case(rule: Rule, batches: list[list[Record]], sweeps: Sequence[int], kind: str) -> Case:
    """Batches of one shard, each with its sweep, that count the records of each key."""
    return Case(
        key_kind=kind,
        aggregates={"n": "count"},
        order=(),
        rule=rule,
        changes=(),
        batches=batches,
        sweeps=list(sweeps),
        reference_sweeps=True,
        is_sorted=True,
        at_batch_time=False,
        weak_hash=False,
        parts=1,
        shards=1,
        restores=(False,),
        merges=(),
    )


def make_clicks(path: Path) -> None:
    """The checkpoint of the documentation's clicks: session a has ended, b is open."""
    minutes = {0: "a", 10: "a", 100: "b"}
    clicks = [Record((key,), START_MS + at * MINUTE_MS) for at, key in minutes.items()]
    sweeps = [START_MS + at * MINUTE_MS for at in (0, 45, 90)]
    rule = Rule(idle_min_ms=30 * MINUTE_MS, idle_max_ms=45 * MINUTE_MS)
    case = make_case(rule, [[click] for click in clicks], sweeps, "string")
    spec = TableSpec((("session_id", pa.string()),), aggregation({"clicks": "count"}, {}))
    make_checkpoint(path, case, sweeps[-1], uid="clicks-by-session", spec=spec)


def tree_hash(path: Path) -> str:
    """Of all names and contents."""
    found = hashlib.sha256()
    for each in sorted(path.rglob("*")):
        found.update(str(each.relative_to(path)).encode())
        found.update(each.read_bytes() if each.is_file() else b"/")
    return found.hexdigest()
