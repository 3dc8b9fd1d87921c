"""The placeholder for the parts of a closed backend."""

from typing import NoReturn

from idlestate.state.errors import BackendClosedError


class ClosedBackend:
    """Replaces the parts of a closed backend: every use raises `BackendClosedError`."""

    def _refuse(self, *_: object) -> NoReturn:
        raise BackendClosedError("the backend is closed: open it again with open_backend")

    __getattr__ = __setattr__ = _refuse
    __getitem__ = __contains__ = __iter__ = __len__ = _refuse
