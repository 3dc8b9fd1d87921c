"""The placeholder for the parts of a closed backend."""

from typing import NoReturn

from idlestate.state.errors import BackendClosedError


def refuse_use(*_: object) -> NoReturn:
    """Raise `BackendClosedError`."""
    raise BackendClosedError("the backend is closed: open it again with open_backend")


class ClosedBackend:
    """Replaces the parts of a closed backend: every use raises `BackendClosedError`."""

    __getattr__ = __setattr__ = refuse_use
    __getitem__ = __contains__ = __iter__ = __len__ = refuse_use
