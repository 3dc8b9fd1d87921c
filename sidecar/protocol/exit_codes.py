"""Exit codes of the processes of a sidecar."""

from typing import Final

from idlestate.errors import (
    DamagedStateError,
    IdlestateError,
    RefusedError,
    StoreError,
    UnavailableError,
)

STOPPED, FAILED, REFUSED, DAMAGED, DISK_FAILED, IN_USE = 0, 1, 65, 66, 74, 75
"""A sidecar: it was stopped; it failed for a reason that the next four do not cover; its file,
sockets or operators do not allow it to run; state is lost or damaged; a disk failed; another
sidecar uses its directory.
"""

ADVISED, BROKEN, OUT_OF_MEMORY = 0, 70, 71
"""An advice process: it printed the advice; an unexpected error, with its stack trace; the memory
limit was too low. With `REFUSED`, standard error contains only why it refused the log or an
argument.

None is 1, with which Python and libraries in C end for reasons of their own.
"""

_KINDS: Final[dict[int, type[IdlestateError]]] = {
    REFUSED: RefusedError,
    DAMAGED: DamagedStateError,
    DISK_FAILED: StoreError,
    IN_USE: RefusedError,
}


def code_of(error: IdlestateError) -> int:
    """The exit code of a sidecar that this error ends."""
    return next((code for code, kind in _KINDS.items() if isinstance(error, kind)), FAILED)


def kind_of(code: int | None) -> type[IdlestateError]:
    """The kind of error that ended a sidecar; `UnavailableError` if its exit code does not say."""
    return UnavailableError if code is None else _KINDS.get(code, UnavailableError)
