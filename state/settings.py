"""The settings of a backend of any kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import pyarrow as pa

from idlestate.state.errors import KeyGroupError, StateTypeError
from idlestate.state.key_groups import KeyGroupRange, check_parallelism
from idlestate.timers.clock import Clock

Place = str | PathLike[str]


def folder_from(name: str, given: object) -> Path:
    """A folder that a caller passed.

    Raises:
        StateTypeError: it is not a path.
    """
    if not isinstance(given, str | PathLike):
        raise StateTypeError(f"{name} {given!r} is not valid: pass a path")
    return Path(given)


def check_name(what: str, given: object) -> None:
    """Raise `StateTypeError` unless this is text that can be stored."""
    if not isinstance(given, str) or not given:
        raise StateTypeError(f"the name of {what} is {given!r}: pass a non-empty string")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise StateTypeError(
            f"the name of {what} is {given!r}, which UTF-8 cannot represent: pass another one"
        ) from error


def check_arrow_type(name: str, given: object) -> None:
    """Raise `StateTypeError` unless this is an Arrow type."""
    if not isinstance(given, pa.DataType):
        raise StateTypeError(f"{name} is {given!r}: pass an Arrow type, such as pa.int64()")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """The arguments of `open_backend`.

    Attributes:
        key_type: Arrow type of keys.
        namespace_type: Arrow type of namespaces.
        max_parallelism: the number of key groups.
        groups: the key groups of this backend.
        clock: the clock.
        restore: folders of snapshots to start with.
    """

    key_type: pa.DataType
    namespace_type: pa.DataType
    max_parallelism: int
    groups: KeyGroupRange
    clock: Clock
    restore: Sequence[Path]

    def __post_init__(self) -> None:
        check_arrow_type("key_type", self.key_type)
        check_arrow_type("namespace_type", self.namespace_type)
        check_parallelism(self.max_parallelism)
        if not isinstance(self.groups, KeyGroupRange):
            raise StateTypeError(f"groups is {self.groups!r}: pass a KeyGroupRange")
        if not callable(getattr(self.clock, "now_ms", None)):
            raise StateTypeError(f"clock is {self.clock!r}: pass an object with now_ms()")
        if self.groups.last >= self.max_parallelism:
            raise KeyGroupError(
                f"key groups {self.groups.first} to {self.groups.last}: with max parallelism "
                f"{self.max_parallelism} the last is {self.max_parallelism - 1}"
            )
