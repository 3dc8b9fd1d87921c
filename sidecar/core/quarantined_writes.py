"""Acknowledged writes that could not be applied: kept with the reason until the operator goes.

Each stands under `a/<uid>/<number>`, a `Message` of the writer, its number, the kind, the time it
was taken at, its rows and why, with the rows as an Arrow stream.
"""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from idlestate.sidecar.core.operator_state import OperatorState
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
        """How many writes, and rows of them."""
        for header, _ in self.read(0):
            self._count(header)

    def add(self, state: OperatorState, key: str, waiting: Message, reason: str) -> None:
        """Quarantine a write that waited under a key of the inbox; under the lock."""
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
        """What is known of each from a number on, with the number, and its rows."""
        for key, value in self._store.scan(f"a/{self._uid}/"):
            number = int(key.rpartition("/")[2])
            if number >= since:
                message = Message.decode(value)
                yield message.header | {"number": number}, message.parts[0]

    def _count(self, header: dict[str, Any]) -> None:
        self.writes += 1
        self.rows += header["rows"]
