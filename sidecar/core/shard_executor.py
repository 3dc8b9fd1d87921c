"""The executor of steps on the tables of shards: it stores the runs but makes no decisions.

The callers (`micro_batches`, `one_way_writes`, `sweeper`) hold the records of shards and pass them
to a `ShardExecutor`, which returns the next ones. A result takes effect only when the caller has
written the record that names it. Results that are never named are discarded.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from idlestate.backends.shards.key_details import KeyDetails
from idlestate.backends.shards.planned_removals import Horizon
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.retention.policy import Policies, Policy, of_sides
from idlestate.sidecar.core.expired_log import Staged

Shards = Mapping[int, ShardRecord]


@dataclass(frozen=True, slots=True)
class StepParameters:
    """The parameters of a step.

    Attributes:
        policy: the policy in force.
        t_ms: the time of its records in processing time, and the time up to which lives are closed.
        version: the version of the resulting tables.
        batch_id: the batch in its change rows.
        now_ms: the clock, for the times of written shards; rows do not depend on it.
        right: for a join, the policy of right rows.
    """

    policy: Policy
    t_ms: int
    version: int
    batch_id: int
    now_ms: int = 0
    right: Policy | None = None

    @property
    def of_sides(self) -> Policies:
        """See `idlestate.retention.policy.of_sides`."""
        return of_sides(self.policy, self.right)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step for a shard, before it takes effect.

    Attributes:
        shard: its next record.
        expired: expire rows that wait for their numbers.
        values: the values to write with the record.
        made: keys of values already written to the store of the shard's tables.
    """

    shard: ShardRecord
    expired: tuple[Staged, ...]
    values: Mapping[str, bytes] = field(default_factory=dict)
    made: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SentRows:
    """Rows of a write: an Arrow stream, or the handle of the parts that were sent to ranges.

    Attributes:
        ranges, of: the ranges that have a part, and the number of ranges that the client knows.
    """

    data: bytes = b""
    handle: str | None = None
    ranges: tuple[int, ...] = ()
    of: int = 1


class Edit(Protocol):
    """A write whose rows were checked successfully."""

    def rows(self) -> bytes:
        """All its rows as one Arrow stream."""

    def apply(self, shards: Shards, parameters: StepParameters) -> dict[int, StepResult]:
        """The results for the given shards that it touches.

        Raises:
            DoesNotFitError: a sum overflows its type.
            GoneError: the rows that were handed over are gone.
        """


class ShardExecutor(Protocol):
    """Executes steps on the tables of one operator."""

    def prepare(
        self, handle: str, ranges: Sequence[int], shards: Shards, parameters: StepParameters
    ) -> tuple[dict[int, StepResult], tuple[int, ...]]:
        """Apply the packets of a handle to shards, and close what is due.

        The rows of the reply wait under the same handle.

        Args:
            handle: the handle of the packets.
            ranges: the ranges that have packets.
            shards: all shards of the task, including those without a packet.
            parameters: the parameters of the step.

        Returns:
            The result for each shard, and per range the number of waiting parts of the reply.

        Raises:
            DoesNotFitError: the packets are not for this operator, or a sum overflows its type.
            GoneError: the handle is unknown or expired.
        """

    def take(
        self,
        handle: str,
        ranges: Sequence[int],
        shards: Shards,
        keys: Mapping[int, Sequence[str]],
    ) -> dict[int, StepResult]:
        """The shards that a task has computed itself.

        Args:
            handle: the handle of their new values.
            ranges: the ranges that have values.
            shards: their next records.
            keys: the keys of each shard's values, in the order in which these were sent.

        Raises:
            DoesNotFitError: keys and values do not match.
            GoneError: the handle is unknown or expired.
        """

    def edit(self, kind: str, sent: SentRows) -> Edit:
        """Check a write.

        Raises:
            DoesNotFitError: its rows lack a column or have another type.
            GoneError: the handle is unknown or expired, or the ranges have changed.
        """

    def cuts(self, shard: ShardRecord, at: int, parameters: StepParameters, rows: int) -> list[int]:
        """Times up to `parameters.t_ms`, which is the last one, with about `rows` ending lives
        between them.
        """

    def first_ends(self, shards: Shards, parameters: StepParameters) -> dict[int, int]:
        """The first deadline of an open life per shard, for shards in which a life ends at or
        before `parameters.t_ms`.
        """

    def close(self, shard: ShardRecord, at: int, parameters: StepParameters) -> StepResult:
        """Close what is due at `parameters.t_ms`, without writing rows of lives."""

    def merge(self, shard: ShardRecord, at: int, parameters: StepParameters) -> StepResult:
        """Rewrite the table without dead rows."""

    def horizons(
        self, shards: Shards, policies: Policies, others: Policies, now_ms: int
    ) -> tuple[Horizon, ...]:
        """What other policies would remove of all these shards; see `horizons_of`."""

    def look_up(self, keys: bytes, shards: Shards, policy: Policy) -> pa.Table:
        """The lives of keys in these shards, including ended ones that are not swept yet."""

    def explain(self, key: bytes, shards: Shards, policies: Policies, now_ms: int) -> KeyDetails:
        """What is known about one key, see `details_of`; the key is an Arrow stream of one row."""

    def lives(
        self, shard: ShardRecord, at: int, policies: Policies, since: int
    ) -> tuple[pa.Table, int | None]:
        """Some lives of a shard, or rows of a join, in order of hash, about `CHUNK_BYTES`, and the
        hash to continue from; None if there are no more.

        Args:
            shard: the shard's record.
            at: the shard's number.
            policies: the policies in force.
            since: the lowest hash; `LOWEST_HASH` at first.
        """

    def value(self, key: str) -> bytes | None:
        """Staged expire rows."""

    def forget(self, runs: Mapping[str, int]) -> None:
        """Remove runs that are no longer needed from the cache, by name and shard."""

    def elsewhere(self, keys: Iterable[str]) -> Set[str]:
        """The given values that are outside the operator's own store."""

    def remove(self, keys: Iterable[str]) -> None:
        """Remove values outside the operator's own store that no record names any more, now or
        later.
        """

    def discard(self, stepped: Iterable[StepResult]) -> None:
        """Remove the values of results that did not take effect."""
