"""The writers of an operator: the session that holds each name, and the highest used number.

Before its first write, a client claims its writer's name. From then on, the previous session of the
name is fenced: its writes are refused, because the new session continues the same numbers, and of
two writes with one number only the first would count.

A writer is stored as JSON under `w/<uid>/<writer>` (before sessions: `<seq> <at_ms>`), together
with each of its writes. If there are too many writers, the one that was silent longest is
forgotten, if it was silent for so long that no client will resend one of its writes.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from idlestate.sidecar.protocol.declaration import NAME
from idlestate.sidecar.protocol.errors import DoesNotFitError, WriterFencedError
from idlestate.sidecar.stores.store import Changes, Store

MAX_WRITERS = 10_000
_SILENT_MS = 86_400_000
_SESSION = re.compile(rf"[0-9]{{1,18}}\.{NAME.pattern}")


@dataclass(frozen=True, slots=True)
class Writer:
    """The state of a writer.

    Attributes:
        seq: the highest used number; -1 if none.
        at_ms: the time of its last call.
        session: the session that holds the name; empty: the first client that writes gets it.
        write_id: the newest accepted write.
    """

    seq: int = -1
    at_ms: int = 0
    session: str = ""
    write_id: str = ""

    def claimed(self, claim_id: str, now_ms: int) -> "Writer":
        """The writer after a client has claimed its name; a resent claim changes nothing.

        A claim that arrives after that of a newer client gets an unknown session: it fences the
        name instead of returning it to the older client.
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
        """Read them from the store."""
        self._uid = uid
        self._known = {
            key.rpartition("/")[2]: Writer.decode(value) for key, value in store.scan(f"w/{uid}/")
        }

    def held(self, name: str, session: str) -> Writer:
        """The writer of a name, for the session that holds it.

        Raises:
            DoesNotFitError: no claim has returned such a session.
            FencedError: another session holds it.
        """
        if session and not _SESSION.fullmatch(session):
            raise DoesNotFitError(
                f"operator {self._uid!r}: {session[:80]!r} is not a session; claim the writer name "
                f"{name[:80]!r} before writing under it"
            )
        writer = self[name]
        if writer.session not in ("", session):
            raise WriterFencedError(
                f"operator {self._uid!r}: a newer client took over the writer name {name[:80]!r}, "
                "and this client cannot write any more; stop it, or give each client that runs at "
                "the same time its own writer name"
            )
        return writer

    def __getitem__(self, name: str) -> Writer:
        """The writer of a name, for any session."""
        return self._known.get(name, Writer())

    def save(self, name: str, after: Writer, write: Callable[[Changes], None]) -> None:
        """Write the next state of a writer, then apply it in memory.

        Args:
            name: the writer.
            after: its next state.
            write: writes it together with other changes.

        Raises:
            DoesNotFitError: there are too many writers.
        """
        gone = self._room_for(name, after.at_ms)
        write({self._key(name): after.encode(), **{self._key(each): None for each in gone}})
        self._known[name] = after
        for each in gone:
            del self._known[each]

    def _room_for(self, name: str, now_ms: int) -> list[str]:
        """The writers to forget to make room for another: none or one."""
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
