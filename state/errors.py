"""What can go wrong with keyed state, by what the caller does about it."""

from idlestate.errors import IdlestateError


class StateError(IdlestateError):
    """State cannot do what it was asked; nothing was changed unless the text says so."""


class NullValueError(StateError, TypeError):
    """None was given where a value has to be: give a value, or call `clear()` or `remove()`."""


class StateTypeError(StateError, TypeError):
    """A key or value is not of the declared type: pass one of that type; nothing was written."""


class StateKindError(StateError, RuntimeError):
    """A name stands for a state of another kind: take another name, or the recorded kind."""


class StateMigrationError(StateError, RuntimeError):
    """Stored bytes do not fit the declared types: declare the recorded ones."""


class IteratorStateError(StateError, RuntimeError):
    """`remove()` has nothing to remove: call it once, right after `next()`."""


class KeyGroupError(StateError, ValueError):
    """Parallelism, key groups or ranges do not fit together: change the number named."""


class SnapshotError(StateError, OSError):
    """A snapshot cannot be written or read; the state itself is as it was."""


class StorageError(StateError, OSError):
    """The disk refused (full, broken, or used by another process); no part was written."""


class BackendClosedError(StateError, RuntimeError):
    """The backend was closed, or its state or timers were used after that: open it again."""


class NoCurrentKeyError(StateError, RuntimeError):
    """State was used before a key was chosen: call `set_current_key` first."""
