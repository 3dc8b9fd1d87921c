"""Writes that wait, durably, in the inbox `i/<uid>/<number>` until the open batch ends."""

from dataclasses import replace
from typing import Any

from idlestate.sidecar.core.operator_contents import OperatorContents
from idlestate.sidecar.protocol.errors import BusyError
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.stores.store import Changes

MAX_WAITING_BYTES = 256 << 20


def keep_waiting(
    state: OperatorContents, header: dict[str, Any], rows: bytes, changes: Changes
) -> None:
    """Put a write into the inbox of an operator with an open batch; under the lock.

    Args:
        state: the operator's state.
        header: writer, seq, kind and t_ms (milliseconds) of the write.
        rows: its rows as an Arrow stream.
        changes: values to store together with it, such as the state of its writer.

    Raises:
        BusyError: too many writes wait for the batch.
    """
    record = state.record
    assert record.open is not None
    if sum(state.waiting.values()) + len(rows) > MAX_WAITING_BYTES:
        raise BusyError(
            f"operator {state.uid!r}: {MAX_WAITING_BYTES >> 20} MB of writes wait for "
            f"batch {record.open.batch_id} of its query to be committed; is the query running?"
        )
    value = Message(header, (rows,)).encode()
    key = f"i/{state.uid}/{record.next_entry:020}"
    after = replace(record, next_entry=record.next_entry + 1)
    state.save(after, values={key: value, **changes})
    state.waiting[key] = len(value)
