"""The current key of a backend."""

from typing import Any

from idlestate.state.errors import NoCurrentKeyError

_NOT_SET = object()


class KeyContext:
    """The current key of a backend; all its states share it."""

    __slots__ = ("_key",)

    def __init__(self) -> None:
        """Start without a key."""
        self._key: Any = _NOT_SET

    @property
    def key(self) -> Any:
        """The current key.

        Raises:
            NoCurrentKeyError: there is none.
        """
        if self._key is _NOT_SET:
            raise NoCurrentKeyError("no current key: call set_current_key(key) first")
        return self._key

    @key.setter
    def key(self, key: Any) -> None:
        self._key = key

    @property
    def mark(self) -> Any:
        """The current key, or the marker for none; an argument of `restore`."""
        return self._key

    def restore(self, mark: Any) -> None:
        """Set the key of this mark again."""
        self._key = mark
