"""Acknowledged writes that could not be applied: kept with the reason while the operator exists.

The value under `a/<uid>/<number>` is a `Message` with the writer, its number, the kind, the time of
acceptance and the reason; its only part contains the rows as an Arrow stream.
"""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from idlestate.sidecar.core.operator_contents import OperatorContents
from idlestate.sidecar.core.stored_message import stored_message
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.stores.store import Store

_log = logging.getLogger("idlestate")


class QuarantinedWrites:
    """The quarantined writes of one operator."""

    def __init__(self, store: Store, uid: str) -> None:
        """Read how many there are."""
        self._store = store
        self._uid = uid
        self.writes, self.rows = 0, 0
        """The numbers of writes and of their rows."""
        for header, _ in self.read(0):
            self._count(header)

    def add(self, state: OperatorContents, key: str, waiting: Message, reason: str) -> None:
        """Quarantine a write that waited in the inbox; under the lock."""
        rows = pa.ipc.open_stream(waiting.parts[0]).read_all().num_rows
        header = waiting.header | {"reason": reason, "rows": rows}
        value = Message(header, waiting.parts).encode()
        number = key.rpartition("/")[2]
        state.save(state.record, values={f"a/{self._uid}/{number}": value}, removed=[key])
        self._count(header)
        _log.warning(
            "write %d of writer %s is quarantined: %s", header["seq"], header["writer"], reason
        )

    def read(self, since: int) -> Iterator[tuple[dict[str, Any], bytes]]:
        """The header (with the number) and the rows of each write from a number on."""
        for key, value in self._store.scan(f"a/{self._uid}/"):
            number = int(key.rpartition("/")[2])
            if number >= since:
                message = stored_message(key, value)
                yield message.header | {"number": number}, message.parts[0]

    def _count(self, header: dict[str, Any]) -> None:
        self.writes += 1
        self.rows += header["rows"]
