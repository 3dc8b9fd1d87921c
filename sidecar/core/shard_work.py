"""What is done to the tables of shards, apart from deciding: who does it keeps the runs.

The rules (`batches`, `direct`, `sweeper`) hold the records of shards and hand them to a `Work`,
which gives back what becomes of them. Nothing that it makes counts until the rules have written the
record that names it; what they never name is of no use to anybody and is discarded.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from idlestate.backends.shards.key_facts import KeyFacts
from idlestate.backends.shards.policy_plan import Horizon
from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.retention.policy import Policy
from idlestate.sidecar.core.expired_log import Staged

Shards = Mapping[int, ShardRecord]


@dataclass(frozen=True, slots=True)
class Going:
    """What a step goes by.

    Attributes:
        policy: the policy in force.
        t_ms: the time of its records in processing time, and how far lives are closed.
        version: that of the tables it makes.
        batch_id: the batch that its change rows name.
        now_ms: the clock, where shards are written; no row is judged by it.
    """

    policy: Policy
    t_ms: int
    version: int
    batch_id: int
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class Stepped:
    """What a step makes of a shard, counted by nobody yet.

    Attributes:
        shard: its next record.
        expired: expire rows that wait for their numbers.
        values: what is to be written with the record.
        made: keys of what was written already, where the shard's tables are.
    """

    shard: ShardRecord
    expired: tuple[Staged, ...]
    values: Mapping[str, bytes] = field(default_factory=dict)
    made: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """Rows of a write: an Arrow stream, or the handle under which ranges have their parts.

    Attributes:
        ranges, of: the ranges that have a part, and how many ranges the client knows.
    """

    data: bytes = b""
    handle: str | None = None
    ranges: tuple[int, ...] = ()
    of: int = 1


class Edit(Protocol):
    """A write whose rows were looked at and fit."""

    def rows(self) -> bytes:
        """All its rows as one Arrow stream."""

    def apply(self, shards: Shards, going: Going) -> dict[int, Stepped]:
        """What it makes of those of all shards that it touches.

        Raises:
            DoesNotFitError: a sum leaves its type.
            GoneError: its rows are not where they were handed over (any more).
        """


class Work(Protocol):
    """The tables of one operator."""

    def prepare(
        self, handle: str, ranges: Sequence[int], shards: Shards, going: Going
    ) -> tuple[dict[int, Stepped], tuple[int, ...]]:
        """Take the packets under a handle into shards, and close what is due.

        The update rows wait under the same handle.

        Args:
            handle: under which the packets came.
            ranges: the ranges that have packets.
            shards: all shards of the task, those without a packet too.
            going: what it goes by.

        Returns:
            What becomes of each shard, and per range how many parts of update rows wait.

        Raises:
            DoesNotFitError: the packets are none of this operator, or a sum leaves its type.
            GoneError: the handle is not known (any more).
        """

    def edit(self, kind: str, given: Given) -> Edit:
        """Look at a write.

        Raises:
            DoesNotFitError: its rows lack a column or are of another type.
            GoneError: the handle is not known (any more), or the ranges are others now.
        """

    def cuts(self, shard: ShardRecord, at: int, going: Going, rows: int) -> list[int]:
        """Times up to `going.t_ms`, each about so many lives after the one before; it is the
        last.
        """

    def first_ends(self, shards: Shards, going: Going) -> dict[int, int]:
        """The first deadline of an open life in each shard; only of shards in which one ends at or
        before `going.t_ms`.
        """

    def close(self, shard: ShardRecord, at: int, going: Going) -> Stepped:
        """Close what is due at `going.t_ms`; no row of a life is written."""

    def merge(self, shard: ShardRecord, at: int, going: Going) -> Stepped:
        """Write the table anew without what nobody needs."""

    def horizons(
        self, shards: Shards, policy: Policy, other: Policy, now_ms: int
    ) -> tuple[Horizon, ...]:
        """What another policy would remove of all these shards, as of `horizons_of`."""

    def look_up(self, keys: bytes, shards: Shards, policy: Policy) -> pa.Table:
        """The lives of keys in these shards, those that ended and are not swept yet too."""

    def explain(self, key: bytes, shards: Shards, policy: Policy, now_ms: int) -> KeyFacts:
        """What is known of one key, as of `facts_of`; the key is an Arrow stream of one row."""

    def lives(
        self, shard: ShardRecord, at: int, policy: Policy, since: int
    ) -> tuple[pa.Table, int | None]:
        """Some lives of a shard in order of hash, about `CHUNK_BYTES`, and the hash to go on from;
        None: there are no more.

        Args:
            shard: the shard's record.
            at: its number.
            policy: the policy in force.
            since: the lowest hash; `LOWEST_HASH` at first.
        """

    def value(self, key: str) -> bytes | None:
        """Staged expire rows."""

    def forget(self, runs: Mapping[str, int]) -> None:
        """Let go of runs, by name with their shard, that nobody will ask for again."""

    def elsewhere(self, keys: Iterable[str]) -> Set[str]:
        """Those of these values of shards that are not in the operator's own store."""

    def remove(self, keys: Iterable[str]) -> None:
        """Give back values that are elsewhere and that no record names any more; it may happen
        later.
        """

    def discard(self, stepped: Iterable[Stepped]) -> None:
        """Give back what was made in vain."""
