"""What can go wrong with keyed state, by what the caller does about it."""

from idlestate.errors import IdlestateError, RefusedError, StoreError


class StateError(IdlestateError):
    """State cannot do what it was asked; nothing was changed unless the text says so."""


class NullValueError(StateError, RefusedError, TypeError):
    """None was given where a value has to be: give a value, or call `clear()` or `remove()`."""


class StateTypeError(StateError, RefusedError, TypeError):
    """A key or value is not of the declared type: pass one of that type; nothing was written."""


class StateKindError(StateError, RefusedError, RuntimeError):
    """A name stands for a state of another kind: take another name, or the recorded kind."""


class StateMigrationError(StateError, RefusedError, RuntimeError):
    """Stored bytes do not fit the declared types: declare the recorded ones."""


class IteratorStateError(StateError, RefusedError, RuntimeError):
    """`remove()` has nothing to remove: call it once, right after `next()`."""


class BackendKindError(StateError, RefusedError, ValueError):
    """The kind of backend is unknown, or its folder does not go with it: change what is named."""


class KeyGroupError(StateError, RefusedError, ValueError):
    """Parallelism, key groups or ranges do not fit together: change the number named."""


class SnapshotError(StateError, StoreError):
    """A snapshot cannot be written or read; the state itself is as it was."""


class StorageError(StateError, StoreError):
    """The disk refused (full, broken, or used by another process); no part was written."""


class BackendClosedError(StateError, RefusedError, RuntimeError):
    """The backend was closed, or its state or timers were used after that: open it again."""


class NoCurrentKeyError(StateError, RefusedError, RuntimeError):
    """State was used before a key was chosen: call `set_current_key` first."""
