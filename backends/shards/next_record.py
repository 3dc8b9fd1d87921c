"""One step of a shard: its record and a batch's packets in, its next record and change rows out.

It is the same for a query's own state, a sidecar, batch DataFrames and tests; only the place of
runs differs (`idlestate.backends.shards.run_place`).
"""

from collections.abc import Sequence
from dataclasses import replace

from idlestate.backends.shards.key_ages import KeyAges
from idlestate.backends.shards.packet_codec import decode_packet
from idlestate.backends.shards.run_place import RunPlace, read_table, write_table
from idlestate.backends.shards.shard_record import ENTRIES, HELD, LIVES, REMEMBERED, ShardRecord
from idlestate.backends.shards.shard_table import Outcome, ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import FOREVER_MS


def steps_of(spec: TableSpec, packets: Sequence[bytes], t_ms: int | None = None) -> Steps:
    """The records of a shard's packets, one per task: merged, or only joined if records wait first.

    Args:
        spec: what the operator is.
        packets: the packets, as tasks packed them.
        t_ms: in processing time, the time of all records; None: each has its own.

    Raises:
        PacketError: a packet has another version.
    """
    parts = [decode_packet(packet, spec) for packet in packets]
    if not parts:
        steps = Steps.empty(spec)
    else:
        steps = Steps.joined(parts) if HELD in spec.tables else Steps.merged(parts)
    return steps if t_ms is None else steps.at(t_ms, spec.kind)


def open_table(spec: TableSpec, record: ShardRecord, place: RunPlace) -> ShardTable:
    """The table that a shard's record describes."""
    tables = {
        name: read_table(place, name, record.table(name), schema)
        for name, schema in spec.tables.items()
    }
    return replace(ShardTable.of(spec, tables, record.seen), ttls=record.ttls)


def next_record(
    record: ShardRecord,
    outcome: Outcome,
    place: RunPlace,
    reached_ms: int,
    now_ms: int,
) -> ShardRecord:
    """Write a shard's tables after an outcome, and return the record that names them.

    Args:
        record: the record of the table before the outcome.
        outcome: the result of the batch.
        place: where the runs are.
        reached_ms: the time that the shard reached.
        now_ms: the clock, which only decides how fresh `ages` are.
    """
    tables, next_end_ms, lives = {}, FOREVER_MS, []
    for name, following in outcome.tables.items():
        tables[name], runs = write_table(place, name, following, record.table(name))
        if name != REMEMBERED and not name.startswith(ENTRIES):
            next_end_ms = min(next_end_ms, runs.next_end_ms(following.policy))
        if name in LIVES:
            lives.append((runs, following.policy))
    # If the times to live change, so do the ends of lives.
    ages = KeyAges() if record.ttls.changes(outcome.ttls) else record.ages
    return replace(
        record,
        tables=tables,
        tally=record.tally.plus(outcome.tally),
        time_ms=max(record.time_ms, reached_ms),
        next_end_ms=next_end_ms,
        ages=ages.after(
            lives, now_ms, changed=outcome.keys_changed, first_end_ms=outcome.first_end_ms
        ),
        ttls=outcome.ttls,
        seen=outcome.seen,
        shown_ms=outcome.showing.upto_ms if outcome.showing else record.shown_ms,
        newest_ms=max(record.newest_ms, outcome.newest_ms),
    )
