"""Ownership: only one query, in its current run, may exchange with an operator."""

from dataclasses import replace

from idlestate.sidecar.core.operator_record import EarlierDeclaration, OperatorRecord, Owner
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DoesNotFitError

MOST_SUPERSEDED = 1000
"""Number of earlier runs whose ids are kept, to refuse a late start of one of them. Tasks of all
earlier runs are refused anyway."""


def owned(record: OperatorRecord, query_id: str, run_id: str, checkpoint: str) -> OperatorRecord:
    """The record after a run of a query has started; earlier runs are superseded.

    Raises:
        DoesNotFitError: another query owns the operator, or the run was superseded.
    """
    superseded = record.superseded
    if record.owner is not None:
        _check_query(record, query_id)
        if run_id in superseded:
            raise _overtaken(record, run_id)
        if run_id != record.owner.run_id:
            superseded = (*superseded, record.owner.run_id)[-MOST_SUPERSEDED:]
    return replace(record, owner=Owner(query_id, run_id, checkpoint), superseded=superseded)


def refuse_other(record: OperatorRecord, declaration: Declaration) -> None:
    """Refuse a query if an operator with its uid exists, its checkpoint does not know that
    operator, and their definitions differ: two programs may have chosen the same uid.

    Raises:
        DoesNotFitError: the definitions differ.
    """
    if declaration != record.declaration:
        raise DoesNotFitError(
            f"operator {declaration.uid!r} of the sidecar has other aggregates, and this query's "
            "checkpoint has not used it before; give the query's operator another uid, or declare "
            "the same aggregates"
        )


def redefined(
    record: OperatorRecord, declaration: Declaration, query: Owner | None
) -> OperatorRecord:
    """The record after another definition was taken over.

    Tasks that pack rows by the previous definition must not reach the new one. So an operator that
    a query owns changes only when a run of the query starts, which supersedes earlier runs.

    Raises:
        DoesNotFitError: another query owns the operator.
    """
    before = None
    if query is not None:
        before = EarlierDeclaration(record.written, record.version, record.next_set)
    if record.owner is not None:
        if query is None:
            raise DoesNotFitError(
                f"operator {declaration.uid!r} belongs to query {record.owner.query_id} with the "
                f"checkpoint {record.owner.checkpoint}, which alone changes its definition: change "
                f"and restart the query, or {way_out(record)}"
            )
        record = owned(record, query.query_id, query.run_id, query.checkpoint)
    return replace(record, declaration=declaration, before=before)


def check_run(record: OperatorRecord, query_id: str, run_id: str) -> None:
    """Refuse all but the owner's current run.

    Raises:
        DoesNotFitError: it belongs to another query or run.
    """
    _check_query(record, query_id)
    if record.owner is None or run_id != record.owner.run_id:
        raise _overtaken(record, run_id)


def way_out(record: OperatorRecord) -> str:
    """How an operator is released from its query by hand."""
    uid = record.declaration.uid
    return f"release the operator with its state: idlestate operator release {uid}"


def _check_query(record: OperatorRecord, query_id: str) -> None:
    uid = record.declaration.uid
    if record.owner is None:
        raise DoesNotFitError(
            f"operator {uid!r} was released by query {query_id}; restart the query"
        )
    if record.owner.query_id != query_id:
        raise DoesNotFitError(
            f"operator {uid!r} belongs to query {record.owner.query_id} with the checkpoint "
            f"{record.owner.checkpoint}; start that one, give this query's operator another uid, "
            f"or {way_out(record)}"
        )


def _overtaken(record: OperatorRecord, run_id: str) -> DoesNotFitError:
    return DoesNotFitError(
        f"operator {record.declaration.uid!r}: run {run_id} of the query was superseded by a later "
        "one, and its tasks are ignored; no action is needed"
    )
