"""Calls of a driver to the sidecar of an operator: attaching it at the query's start, reading its
figures, ending bounded input, dropping it.
"""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from idlestate.backends.checkpoint.operator_layout import read_layout
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.spark_logs import read_batch_times
from idlestate.backends.shards.shard_report import ShardReport, reported
from idlestate.errors import RefusedError
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.sidecar_link import SidecarLink
from idlestate.sidecar.client.private_sidecar import private_sidecar, sidecar_to_ask
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.message import PROTOCOL
from idlestate.sidecar.protocol.retries import CONNECT_TIMEOUT_S


def attach(
    spec: OperatorSpec, checkpoint: Folder, query_id: str, run_id: str, *, is_local: bool
) -> SidecarLink:
    """Create the operator in a sidecar or find the existing one, with this run of the query as its
    owner.

    Args:
        spec: the operator.
        checkpoint: the query's checkpoint, prepared for it.
        query_id, run_id: the query and its run.
        is_local: whether all executors are on this machine.

    Raises:
        RefusedError: there is no sidecar, or its operator does not fit.
        UnavailableError: the sidecar does not answer, or is busy.
        StoreError, DamagedStateError: a private one cannot start for this reason.
    """
    before = _noted(checkpoint, spec.uid)
    address = spec.sidecar or _private(spec, checkpoint, is_local=is_local)
    layout = read_layout(checkpoint, spec.uid)
    newest = PolicyJournal(checkpoint, spec.uid).newest
    shards = len(layout.shards)
    declaration = Declaration.of(spec.uid, spec.table, newest.policy.time, shards, spec.renamed)
    query = {"query_id": query_id, "run_id": run_id, "checkpoint": checkpoint.url}
    link = SidecarLink(address, spec.uid, query_id)
    place = spec.sidecar.place if spec.sidecar else None
    with closing(link.connect(CONNECT_TIMEOUT_S)) as connection:
        spoken = connection.call("hello", {}).header["protocol"]
        if spoken != PROTOCOL:
            raise RefusedError(
                f"operator {spec.uid!r}: {_where(place)} speaks version {spoken} of the protocol, "
                f"the query version {PROTOCOL}; run both with the same version of idlestate"
            )
        declare = {
            "declaration": declaration.to_json(),
            "policy": newest.policy.to_json(),
            "right": newest.right and newest.right.to_json(),
            "made": before.get("made"),
            "query": query,
        }
        made = connection.call("declare", declare).header["made"]
        if made is None:
            raise RefusedError(
                f"operator {spec.uid!r}: {_where(place)} does not hold the state of "
                f"checkpoint {checkpoint}, which was in {_where(before['place'])}; pass that one "
                "(--sidecar ADDRESS), restore its folder, or start with a new checkpoint"
            )
        connection.call("begin", {"uid": spec.uid, **query})
        if not spec.table.ends_by_batches:  # otherwise it gets expire rows with its batches
            acknowledged = {"uid": spec.uid, "consumer": link.consumer, "upto": 0}
            connection.call("acknowledge", acknowledged)
    note = {"place": place, "backend": spec.backend, "made": made}
    checkpoint.replace(_note(spec.uid), json.dumps(note).encode())
    if spec.link_file is not None:
        Path(spec.link_file).write_text(link.to_text())
    return link


def link_of(
    checkpoint: Folder, uid: str, address: Address | None = None, *, runs_query: bool = False
) -> SidecarLink | None:
    """The sidecar of an operator of a checkpoint; None if its state is in the checkpoint.

    A private one is started if needed.

    Args:
        checkpoint: the query's checkpoint.
        uid: the operator.
        address: the current address of its sidecar, with secrets; None: the previous one.
        runs_query: whether this process runs the query, or is about to. If so, a private sidecar
            belongs to this process; otherwise it may belong to the process that runs the query.
    """
    facts = _noted(checkpoint, uid)
    if not facts:
        return None
    if address is None and facts["place"] is not None:
        address = Address(facts["place"])
    if address is None:
        place, backend = Path(checkpoint.path("").rstrip("/")), facts["backend"]
        ours = private_sidecar(place, backend).address if runs_query else None
        address = ours or sidecar_to_ask(place, backend)
    query_id: str = json.loads(checkpoint.read("metadata"))["id"]
    return SidecarLink(address, uid, query_id)


def reports_of(checkpoint: Folder, link: SidecarLink, batch_id: int) -> list[ShardReport]:
    """The reports of an operator's shards after a batch of a checkpoint.

    Raises:
        RefusedError: the operator has stopped.
        UnavailableError: the sidecar does not answer, or is busy.
    """
    with closing(link.connect()) as connection:
        connection.call("settle", {"uid": link.uid})  # the batch may just have been committed
        header = connection.call("figures", {"uid": link.uid}).header
    version = PolicyJournal(checkpoint, link.uid).for_batch(batch_id).version
    times = read_batch_times(checkpoint, batch_id)
    return [reported(each, version, times) for each in header["figures"].values()]


def drop_operator(address: Address, uid: str) -> None:
    """Drop an operator of a sidecar with all its state.

    Raises:
        UnavailableError: the sidecar does not answer, or is busy.
    """
    with closing(SidecarLink(address, uid).connect()) as connection:
        connection.call("drop", {"uid": uid})


def finish_input(checkpoint: Folder, link: SidecarLink, *, sweep: bool) -> int:
    """Commit the last batch of bounded input, close what is due, and return the number of expired
    records.

    Args:
        checkpoint: the query's checkpoint, whose batches are all committed.
        link: the operator.
        sweep: whether to close lives that are due at the reached watermark.

    Raises:
        RefusedError: the operator has stopped, or its sidecar cannot see the checkpoint.
        UnavailableError: the sidecar does not answer, or is busy.
    """
    with closing(link.connect()) as connection:
        next_seq: int = _settled(connection, checkpoint, link)["next_seq"]
        while sweep:
            answer = connection.call("final_sweep", {"uid": link.uid}).header
            next_seq, sweep = answer["next_seq"], answer["is_left"]
        return next_seq


def owes_batch(checkpoint: Folder, link: SidecarLink) -> bool:
    """Whether the next start begins with a batch without data that releases waiting rows; arguments
    and errors as in `finish_input`.
    """
    with closing(link.connect()) as connection:
        return _settled(connection, checkpoint, link)["owed_ms"] is not None


def _settled(connection: Connection, checkpoint: Folder, link: SidecarLink) -> dict[str, Any]:
    """The operator after the last batch of a query that has ended."""
    settled = connection.call("settle", {"uid": link.uid}).header
    if settled["open_batch"] is not None:
        raise RefusedError(
            f"operator {link.uid!r}: its sidecar does not find commits/{settled['open_batch']} "
            f"of checkpoint {checkpoint}, so records of this batch are missing: let "
            "the sidecar read the checkpoint's folder, and run this again"
        )
    return settled


def _private(spec: OperatorSpec, checkpoint: Folder, *, is_local: bool) -> Address:
    if not (is_local and checkpoint.is_local):
        raise RefusedError(
            f"operator {spec.uid!r}: backend {spec.backend} needs a sidecar that every executor "
            "can reach: start one (idlestate serve FILE) and pass it (--sidecar ADDRESS)"
        )
    return private_sidecar(Path(checkpoint.path("").rstrip("/")), spec.backend).address


def _noted(checkpoint: Folder, uid: str) -> dict[str, Any]:
    """The checkpoint's facts about the sidecar of an operator; empty before the first start."""
    if not checkpoint.exists(_note(uid)):
        return {}
    facts: dict[str, Any] = json.loads(checkpoint.read(_note(uid)))
    return facts


def _where(place: str | None) -> str:
    return "the sidecar in the checkpoint's folder" if place is None else f"the sidecar at {place}"


def _note(uid: str) -> str:
    """The file of the checkpoint about the sidecar of an operator."""
    return f"idlestate/{uid}/sidecar.json"
