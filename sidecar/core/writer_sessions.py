"""The writers of an operator: which session holds each name, and the highest number taken.

Before its first write a client claims its writer's name. From then on the session that held the
name is fenced: its writes are refused, since the new one goes on with the same numbers, and of two
writes under one number only the first would count.

What is known of a writer is JSON under `w/<uid>/<writer>` (before sessions: `<seq> <at_ms>`), and
is written with each of its writes. Where there are too many writers, the one that has been silent
for longest is forgotten, if that is long enough: nobody sends such an old write again.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from idlestate.sidecar.protocol.errors import DoesNotFitError, WriterFencedError
from idlestate.sidecar.stores.store import Changes, Store

MAX_WRITERS = 10_000
_SILENT_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Writer:
    """What is known of a writer.

    Attributes:
        seq: the highest number taken; -1: none.
        at_ms: when it was last heard of.
        session: who holds the name; empty: the first who writes.
        write_id: the newest write that was taken.
    """

    seq: int = -1
    at_ms: int = 0
    session: str = ""
    write_id: str = ""

    def claimed(self, claim_id: str, now_ms: int) -> "Writer":
        """The writer once a client holds its name; a claim that is sent again changes nothing.

        A claim that comes late, behind one of a newer client, gets a session that nobody knows:
        it fences the name instead of giving it back.
        """
        number, _, known_id = self.session.partition(".")
        if known_id == claim_id:
            return self
        return replace(self, at_ms=now_ms, session=f"{int(number or 0) + 1}.{claim_id}")

    def encode(self) -> bytes:
        """The writer as a value."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> "Writer":
        """Read it back."""
        if value.startswith(b"{"):
            return cls(**json.loads(value))
        seq, _, at_ms = value.partition(b" ")
        return cls(int(seq), int(at_ms or 0))


class Writers:
    """The writers of one operator; changed under its lock."""

    def __init__(self, store: Store, uid: str) -> None:
        """Read what the store has of them."""
        self._uid = uid
        self._known = {
            key.rpartition("/")[2]: Writer.decode(value) for key, value in store.scan(f"w/{uid}/")
        }

    def held(self, name: str, session: str) -> Writer:
        """The writer of a name, for the session that holds it.

        Raises:
            FencedError: another session holds it.
        """
        writer = self[name]
        if writer.session not in ("", session):
            raise WriterFencedError(
                f"operator {self._uid!r}: a newer client took over the writer name {name[:80]!r}, "
                "and this client cannot write any more; stop it, or give each client that runs at "
                "the same time its own writer name"
            )
        return writer

    def __getitem__(self, name: str) -> Writer:
        """The writer of a name, whoever holds it."""
        return self._known.get(name, Writer())

    def save(self, name: str, after: Writer, write: Callable[[Changes], None]) -> None:
        """Have the next state of a writer written, and go by it.

        Args:
            name: the writer.
            after: its next state.
            write: writes it, with what else changes.

        Raises:
            DoesNotFitError: there are too many writers.
        """
        gone = self._room_for(name, after.at_ms)
        write({self._key(name): after.encode(), **{self._key(each): None for each in gone}})
        self._known[name] = after
        for each in gone:
            del self._known[each]

    def _room_for(self, name: str, now_ms: int) -> list[str]:
        """Who is to be forgotten so that there is room for a writer."""
        if name in self._known or len(self._known) < MAX_WRITERS:
            return []
        oldest = min(self._known, key=lambda each: self._known[each].at_ms)
        if now_ms - self._known[oldest].at_ms < _SILENT_MS:
            raise DoesNotFitError(
                f"operator {self._uid!r} has {MAX_WRITERS} writers, all active within a day; let "
                "clients keep their writer names across restarts"
            )
        return [oldest]

    def _key(self, name: str) -> str:
        return f"w/{self._uid}/{name}"
