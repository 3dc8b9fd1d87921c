"""Prepared pieces: the results of tasks for a batch, durable but not yet visible.

The pieces of one execution of a batch, (run id, execution id), form a set; it is complete when
every partition has its piece. The key of a piece is `p/<uid>/<set>/<partition>`; its segments and
expired records are separate values, written with it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass

from idlestate.backends.shards.shard_record import ShardRecord
from idlestate.sidecar.core.expired_log import Staged
from idlestate.sidecar.core.stored_message import stored_message
from idlestate.sidecar.protocol.message import Message
from idlestate.sidecar.stores.store import Store

SetId = tuple[str, str]
"""Run id and execution id."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One partition's part of a set."""

    attempt: int
    shards: Mapping[int, ShardRecord]
    expired: tuple[Staged, ...]

    def encode(self, set_id: SetId, partitions: int) -> bytes:
        """The piece as a value."""
        header = {
            "set": set_id,
            "partitions": partitions,
            "attempt": self.attempt,
            "shards": list(self.shards),
            "expired": [astuple(each) for each in self.expired],
        }
        return Message(header, tuple(record.encode() for record in self.shards.values())).encode()


@dataclass(slots=True)
class PreparedSet:
    """The pieces of one execution; a higher number started later."""

    number: int
    partitions: int
    pieces: dict[int, Piece]

    @property
    def is_complete(self) -> bool:
        """Whether every partition has its piece."""
        return len(self.pieces) == self.partitions


class PreparedSets:
    """The sets of an operator's open batch."""

    def __init__(self, store: Store, uid: str) -> None:
        """Read the prepared pieces."""
        self._uid = uid
        self.sets: dict[SetId, PreparedSet] = {}
        for key, value in store.scan(f"p/{uid}/"):
            message = stored_message(key, value)
            header = message.header
            _, _, number, partition = key.split("/")
            run_id, execution_id = header["set"]
            found = self.sets.setdefault(
                (run_id, execution_id), PreparedSet(int(number), header["partitions"], {})
            )
            shards = zip(header["shards"], message.parts, strict=True)
            found.pieces[int(partition)] = Piece(
                header["attempt"],
                {shard: ShardRecord.decode(part) for shard, part in shards},
                tuple(Staged(*each) for each in header["expired"]),
            )

    def newest_complete(self) -> PreparedSet | None:
        """The set to commit; None if no execution has finished."""
        complete = [each for each in self.sets.values() if each.is_complete]
        return max(complete, key=lambda each: each.number, default=None)

    def older_than(self, number: int) -> Iterator[SetId]:
        """Sets that started before another one."""
        return (set_id for set_id, each in self.sets.items() if each.number < number)

    def key(self, number: int, partition: int) -> str:
        """The key of a piece in the store."""
        return f"p/{self._uid}/{number:010}/{partition:05}"
