"""Rewriting stored rows of a state whose declared types or time to live changed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from idlestate.retention.rules import NEVER_MS
from idlestate.state.batch_values import Stored
from idlestate.state.byte_layout import ValueLayout
from idlestate.state.descriptors import StateDescriptor, StateKind
from idlestate.state.errors import StateKindError, StateMigrationError
from idlestate.state.schema_change import adapter
from idlestate.state.state_schema import StateSchema
from idlestate.state.table import Row


@dataclass(frozen=True, slots=True)
class Migration:
    """Rewrites rows of one layout to another.

    Attributes:
        old: the old layout.
        target: the new schema.
        adapt: converts old values to new ones; None to keep them.
        now_ms: the timestamp for values without one.
    """

    old: ValueLayout
    target: StateSchema
    adapt: Callable[[Any], Any] | None
    now_ms: int

    def rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, rewritten."""
        new, old = self.target.layout, self.old
        is_list = self.target.kind is StateKind.LIST
        for key, data in rows:
            if not data:
                yield Row(key, data)
            elif is_list:
                items = [self._stored(item) for item in old.decode_items(data)]
                yield Row(key, new.encode_items(items))
            else:
                yield Row(key, new.encode(self._stored(old.decode(data))))

    def _stored(self, stored: Stored) -> Stored:
        if stored is None:
            return None
        value, stamp = stored if self.old.stamped else (stored, self.now_ms)
        if self.adapt is not None and value is not None:
            value = self.adapt(value)
        return (value, stamp) if self.target.stamped else value


def migration_of(
    stored: StateSchema, descriptor: StateDescriptor[Any], now_ms: Callable[[], int]
) -> Migration | None:
    """The migration that stored rows need to fit a descriptor; None if they fit already.

    The clock is asked only if values need a timestamp.

    Raises:
        StateKindError: the descriptor has another kind.
        StateMigrationError: the types do not fit.
    """
    wanted = StateSchema.of(descriptor)
    if wanted.kind is not stored.kind:
        raise StateKindError(
            f"state {stored.name} is stored as {stored.kind.value}, declared as "
            f"{wanted.kind.value}: use {stored.kind.value.capitalize()}StateDescriptor, or a "
            "different name"
        )
    if wanted.user_key_type != stored.user_key_type:
        raise StateMigrationError(
            f"state {stored.name}, map keys: stored as {stored.user_key_type}, declared as "
            f"{wanted.user_key_type}: declare the stored type, or use a different name"
        )
    adapt = adapter(
        f"state {stored.name}", stored.value_type, wanted.value_type, descriptor.defaults
    )
    if adapt is None and wanted.stamped == stored.stamped:
        return None
    target = replace(wanted, family=stored.next_family())
    gets_stamps = wanted.stamped and not stored.stamped
    return Migration(stored.layout, target, adapt, now_ms() if gets_stamps else NEVER_MS)
