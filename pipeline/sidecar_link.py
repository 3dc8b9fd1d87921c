"""The link of tasks to the sidecar of an operator: its address as text, sent with a query."""

import atexit
import json
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from idlestate.backends.files.temporary_folder import OwnFolder
from idlestate.errors import RefusedError
from idlestate.sidecar.protocol.connection import Address, Connection
from idlestate.sidecar.protocol.retries import PATIENCE_S

SIDECARS_PROPERTY = "idlestate.sidecars"
"""The local property with the links of a query's operators, for its tasks."""


@cache
def _link_files() -> OwnFolder:
    """A folder for the files that pass links to sources; it is removed with this process."""
    folder = OwnFolder()
    atexit.register(folder.remove)
    return folder


def link_file(token: str) -> str:
    """The file of one `retain`."""
    return str(_link_files().path / f"{token}.json")


@dataclass(frozen=True, slots=True)
class SidecarLink:
    """An operator in a sidecar."""

    address: Address
    uid: str
    query_id: str = ""

    @property
    def consumer(self) -> str:
        """The name under which the query acknowledges expired records."""
        return f"query-{self.query_id}"

    def connect(self, connect_timeout_s: float = PATIENCE_S) -> Connection:
        """A new connection for the caller.

        Args:
            connect_timeout_s: see `Connection`. It is short only for the first call of this query
                to a sidecar: later callers know that it was available.
        """
        return Connection(self.address, connect_timeout_s=connect_timeout_s)

    def to_text(self) -> str:
        """The link as text."""
        return json.dumps(
            {"address": asdict(self.address), "uid": self.uid, "query_id": self.query_id}
        )

    @classmethod
    def of_text(cls, text: str) -> "SidecarLink":
        """Read it back."""
        facts = json.loads(text)
        return cls(Address(**facts["address"]), facts["uid"], facts["query_id"])


def link_of_task(uid: str) -> SidecarLink:
    """The link of an operator, in a task of its query.

    Raises:
        RefusedError: idlestate's listener is missing.
    """
    # `explain` and `plan` answer without Spark.
    from pyspark import TaskContext  # noqa: PLC0415

    context: Any = TaskContext.get()
    links = json.loads(context.getLocalProperty(SIDECARS_PROPERTY) or "{}")
    if uid not in links:
        raise RefusedError(
            f"operator {uid!r} does not know its sidecar: start the query in the session (classic, "
            "not Spark Connect) in which retain() was called"
        )
    return SidecarLink.of_text(links[uid])
