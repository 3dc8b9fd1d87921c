"""`idlestate.explain`: why a key is in the state of a query or a sidecar, or has left it."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from idlestate.backends.checkpoint.operator_layout import operator_of, read_layout, spec_at
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.checkpoint.runs_folder import runs_of
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.run_files import RunFiles
from idlestate.backends.files.spark_logs import newest_committed, reached_watermark_ms
from idlestate.backends.runs.table_schema import KeyColumns
from idlestate.backends.shards.key_details import (
    Explanation,
    KeyDetails,
    details_of,
    one_key,
    shard_of,
)
from idlestate.backends.shards.next_record import open_table
from idlestate.backends.shards.packet_codec import KeptPacketError
from idlestate.errors import DamagedStateError, RefusedError
from idlestate.pipeline.checkpoint.recorded_shards import read_records
from idlestate.pipeline.sidecar_attachment import link_of
from idlestate.retention.policy import Policy, TimeDomain, right_policy
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.retries import CONNECT_TIMEOUT_S
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.timers.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def explain(
    key: Mapping[str, Any] | Sequence[Any],
    checkpoint: str | Path | None = None,
    *,
    uid: str | None = None,
    sidecar: str | Address | None = None,
    spark: "SparkSession | None" = None,
    clock: Clock | None = None,
) -> Explanation:
    """Explain why a key is in state, or has left it. This does not extend the key's life.

    Args:
        key: the values of the key columns, by name or in their order; text is converted.
        checkpoint: the checkpoint of a query, which may be running.
        uid: the operator; optional for a checkpoint that has only one.
        sidecar: the address of a sidecar; with a checkpoint, the current address.
        spark: a session, needed only if another version of idlestate wrote the checkpoint.
        clock: default: the system's.

    Raises:
        RefusedError: no such operator, nothing to read, or the key has other columns.
        UnavailableError: the sidecar does not answer, or is busy.
        DamagedStateError: a file of the state is lost, damaged or of another version.
    """
    address = Address(sidecar) if isinstance(sidecar, str) else sidecar
    if checkpoint is not None:
        now_ms = (clock or SystemClock()).now_ms()
        return _in_checkpoint(Folder(str(checkpoint)), uid, key, now_ms, address, spark)
    if address is None or uid is None:
        raise RefusedError("pass a checkpoint, or the address of a sidecar and the operator's uid")
    with closing(Connection(address, connect_timeout_s=CONNECT_TIMEOUT_S)) as connection:
        return _asked(connection, uid, key)


def _in_checkpoint(
    checkpoint: Folder,
    uid: str | None,
    key: Mapping[str, Any] | Sequence[Any],
    now_ms: int,
    address: Address | None,
    spark: "SparkSession | None",
) -> Explanation:
    uid = operator_of(checkpoint, uid)
    layout = read_layout(checkpoint, uid)
    committed = newest_committed(checkpoint)
    if committed is None:
        raise RefusedError(f"checkpoint {checkpoint} has no committed batch yet")
    in_force = PolicyJournal(checkpoint, uid).for_batch(committed)
    link = link_of(checkpoint, uid, address)
    if link is not None:
        with closing(link.connect(CONNECT_TIMEOUT_S)) as connection:
            found = _asked(connection, uid, key, settles=True)
        return replace(found, policy=in_force.policy, policy_version=in_force.version)
    spec = spec_at(checkpoint, uid, layout, committed)
    columns = _columns(uid, key, spec.keys)
    records = read_records(checkpoint, uid, layout, committed, spark)
    at = shard_of(columns, len(layout.shards))
    by_shard = {record.shard: record for record in records}
    if not by_shard:
        raise RefusedError(f"operator {uid!r} of checkpoint {checkpoint} has seen no row yet")
    record = by_shard[layout.shards[at]]
    table = open_table(spec, record, RunFiles(runs_of(checkpoint, uid, layout), record.shard))
    if in_force.policy.time is TimeDomain.EVENT:
        now_ms = reached_watermark_ms(checkpoint, committed)
    else:
        now_ms = max(now_ms, record.time_ms)
    try:
        facts = details_of(table, record, columns, in_force.of_sides, now_ms)
    except KeptPacketError as error:
        raise DamagedStateError(f"operator {uid!r} of checkpoint {checkpoint}: {error}") from error
    shown = {name: column[0].as_py() for (name, _), column in zip(spec.keys, columns, strict=True)}
    right = in_force.of_sides[1] if spec.is_of_sides else None
    return Explanation(uid, shown, now_ms, facts, in_force.policy, in_force.version, right)


def _asked(
    connection: Connection,
    uid: str,
    key: Mapping[str, Any] | Sequence[Any],
    *,
    settles: bool = False,
) -> Explanation:
    """Ask a sidecar; with `settles`, it first takes over a batch that was just committed."""
    if settles:
        connection.call("settle", {"uid": uid})
    declared = connection.call("describe", {"uid": uid}).header["declaration"]
    keys = Declaration.from_json(declared).spec().keys
    rows = pa.table(_columns(uid, key, keys), names=[name for name, _ in keys])
    facts = connection.call("explain", {"uid": uid}, stream_of(rows)).header
    policy = replace(Policy.from_json(facts["policy"]), chosen_by=facts["chosen_by"])
    (shown,) = rows.to_pylist()
    found = KeyDetails.from_json(facts["details"])
    right = right_policy(facts)
    return Explanation(uid, shown, facts["now_ms"], found, policy, facts["policy_version"], right)


def _columns(uid: str, key: Mapping[str, Any] | Sequence[Any], keys: KeyColumns) -> list[pa.Array]:
    """The key, converted to the types of its columns."""
    names = [name for name, _ in keys]
    try:
        if isinstance(key, Mapping):
            if sorted(key) != sorted(names):
                raise ValueError(f"its key columns are {', '.join(names)}")
            key = [key[name] for name in names]
        elif isinstance(key, str):
            key = [key]
        return one_key(key, keys)
    except ValueError as error:
        raise RefusedError(f"operator {uid!r}: {error}") from error
