"""An operator: everything `retain` was told, in one value that travels to every task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy, TimeDomain

if TYPE_CHECKING:  # tasks of a query that keeps its own state load no network
    from idlestate.sidecar.protocol.connection import Address


HASH, TIME = "__hash", "__time"
"""Columns that `retain` adds before packing: key hash; event time in ms, or a `RejectCode`."""


def carried_name(name: str) -> str:
    """The name under which a column reaches the packing step: Spark cannot hand over dots."""
    return name.replace("%", "%25").replace(".", "%2E")


def original_name(name: str) -> str:
    """The column's own name again."""
    return name.replace("%2E", ".").replace("%25", "%")


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """An operator.

    `inputs` are the columns that the packing step receives besides hash and time, with the Arrow
    types they are cast to.
    """

    uid: str
    table: TableSpec
    policy: Policy
    inputs: tuple[tuple[str, pa.DataType], ...]
    read_when: str | None
    delay_ms: int
    max_ahead_ms: int
    rejects: bool
    has_time: bool
    """Whether the `TIME` column is there: event time, or rows that may be rejected without it."""
    shards: int | None
    """Shards asked for; None for four per state partition."""
    runs: str | None
    """Where its runs are to be; None: in the checkpoint."""
    token: str
    """Tells this operator from another of the same uid in one session."""
    backend: str = "spark"
    """`spark`, or what the sidecar keeps state on: `rocksdb` or `heap`."""
    sidecar: "Address | None" = None
    """The sidecar; None: one that the driver starts for itself."""
    partitions: int = 1
    """Over how many partitions a sidecar's shards are spread in Spark."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New to old names of aggregates whose state stands under the old one in the checkpoint."""
    link_file: str | None = None
    """Where the driver tells the source of expired records of its sidecar."""

    @property
    def is_event_time(self) -> bool:
        """Whether the rules go by the events' own time."""
        return self.policy.time is TimeDomain.EVENT
