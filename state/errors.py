"""Errors of keyed state, one class for each reaction of the caller."""

from idlestate.errors import DamagedStateError, IdlestateError, RefusedError, StoreError


class StateError(IdlestateError):
    """An operation on state failed; nothing was changed unless the text says so."""


class NullValueError(StateError, RefusedError, TypeError):
    """None was passed where a value is required: pass a value, or call `clear()` or `remove()`."""


class StateTypeError(StateError, RefusedError, TypeError):
    """A key, value or argument has another type than declared; nothing was written."""


class StateArgumentError(StateError, RefusedError, ValueError):
    """An argument names nothing, or does not fit the others: pass what the text says."""


class StateKindError(StateError, RefusedError, RuntimeError):
    """A name belongs to a state of another kind: use another name, or the recorded kind."""


class StateMigrationError(StateError, RefusedError, RuntimeError):
    """Stored bytes do not fit the declared types: declare the recorded ones."""


class IteratorStateError(StateError, RefusedError, RuntimeError):
    """`remove()` has nothing to remove: call it once, right after `next()`."""


class BackendKindError(StateError, RefusedError, ValueError):
    """The kind of backend is unknown, or its folder does not fit it: change the named argument."""


class KeyGroupError(StateError, RefusedError, ValueError):
    """Parallelism, key groups or ranges contradict each other: change the named number."""


class SnapshotError(StateError, StoreError):
    """The disk did not write or read a snapshot: free space or restore access, then try again."""


class DamagedFileError(StateError, DamagedStateError):
    """A file is lost or damaged: restore the one that the text names, or another snapshot."""


class FolderInUseError(StateError, RefusedError, RuntimeError):
    """The folder is open already: close it there, or use another folder."""


class StateStoreError(StateError, StoreError):
    """The disk refused a write (it is full or broken); nothing was written."""


class BackendClosedError(StateError, RefusedError, RuntimeError):
    """The backend was closed, or its state or timers were used after that: open it again."""


class NoCurrentKeyError(StateError, RefusedError, RuntimeError):
    """State was used without a current key: call `set_current_key` first."""
