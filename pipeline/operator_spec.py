"""The spec of an operator: all arguments of `retain` in one value, which is sent to every task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from idlestate.backends.shards.input_watermarks import InputTerms
from idlestate.backends.shards.operator_step import OperatorStep
from idlestate.backends.shards.operator_steps import LIFE_STEP
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy, TimeDomain

if TYPE_CHECKING:  # tasks of a query that keeps its own state load no network
    from idlestate.sidecar.protocol.connection import Address


HASH, TIME = "__hash", "__time"
"""Columns that `retain` adds before packing: key hash; event time in ms, or a `RejectCode`."""


def carried_name(name: str) -> str:
    """The name of a column in the packing step: Spark cannot pass dots and back-quotes."""
    return name.replace("%", "%25").replace(".", "%2E").replace("`", "%60")


def original_name(name: str) -> str:
    """The column's original name."""
    return name.replace("%60", "`").replace("%2E", ".").replace("%25", "%")


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
    """Whether there is a `TIME` column: for event time, or for reject codes without event time."""
    shards: int | None
    """The requested number of shards; None for four per state partition."""
    runs: str | None
    """The place of its runs; None: the checkpoint."""
    token: str
    """Distinguishes operators with the same uid in one session."""
    backend: str = "spark"
    """`spark`, or the backend of the sidecar: `rocksdb` or `heap`."""
    sidecar: "Address | None" = None
    """The address of the sidecar; None: the driver starts its own."""
    partitions: int = 1
    """The number of Spark partitions for a sidecar's shards."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """New to old names of aggregates; the checkpoint has their state under the old name."""
    operator_step: OperatorStep = LIFE_STEP
    """The step of its shards; for `process`, the function."""
    right_policy: Policy | None = None
    """For a join, the policy of right rows."""
    all_read: bool = False
    """Whether all rows of this input are reads, such as the probes of an as-of join."""
    input_name: str = ""
    """The name of this input, if there are two."""
    terms: Mapping[str, InputTerms] = field(default_factory=dict)
    """For two inputs, how long each may hold the watermark back, by name."""
    drops_null_keys: bool = False
    """Whether rows of this input with a null in the key match nothing and change nothing."""
    is_second: bool = False
    """Whether its input is the output of another operator of the query (`second_step`)."""
    link_file: str | None = None
    """The file through which the driver tells the source of expired records about its sidecar."""

    @property
    def may_be_idle(self) -> bool:
        """Whether it has two inputs, and one may stop holding the watermark back."""
        return any(each.idle_after_ms is not None for each in self.terms.values())

    @property
    def is_event_time(self) -> bool:
        """Whether the policy uses event time."""
        return self.policy.time is TimeDomain.EVENT
