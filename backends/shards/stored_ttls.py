"""The times to live under which a function's lives are stored, in the record of a shard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from idlestate.retention.rules import NEVER_MS


class StoredTtl(NamedTuple):
    """The time to live of a state, `FOREVER_MS` without one, and for a value, its stamp column."""

    ttl_ms: int
    stamps: str | None = None


@dataclass(frozen=True, slots=True)
class StoredTtls:
    """The times to live of a shard's states.

    Attributes:
        of_states: by the ids of states; empty if no state has a time to live.
        swept_ms: everything that expired under them by this time is removed.
    """

    of_states: Mapping[int, StoredTtl] = field(default_factory=dict)
    swept_ms: int = NEVER_MS

    def changes(self, now: "StoredTtls") -> bool:
        """Whether rows stored under these may be wrong under others."""
        if not self.of_states:
            return bool(now.of_states)
        return any(
            state not in now.of_states or now.of_states[state].ttl_ms != each.ttl_ms
            for state, each in self.of_states.items()
        )

    def after(self, now: "StoredTtls", sweep_at_ms: int | None) -> "StoredTtls":
        """The times to live to store after a batch that swept up to a time (None: it did not
        sweep).
        """
        swept_ms = NEVER_MS if sweep_at_ms is None else sweep_at_ms
        return replace(now, swept_ms=max(self.swept_ms, swept_ms))

    def to_json(self) -> list[Any]:
        """As a list that `json` writes."""
        return [self.swept_ms, {str(state): each for state, each in self.of_states.items()}]

    @classmethod
    def from_json(cls, facts: Sequence[Any]) -> "StoredTtls":
        """Read it back."""
        swept_ms, of_states = facts
        found = {int(state): StoredTtl(*each) for state, each in of_states.items()}
        return cls(found, swept_ms)
