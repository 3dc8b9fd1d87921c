"""What is left of a closed backend."""

from typing import NoReturn

from idlestate.state.errors import BackendClosedError


class ClosedBackend:
    """Stands for what a closed backend had: every use of it raises `BackendClosedError`."""

    def _refuse(self, *_: object) -> NoReturn:
        raise BackendClosedError("the backend is closed: open it again with open_backend")

    __getattr__ = __setattr__ = _refuse
    __getitem__ = __contains__ = __iter__ = __len__ = _refuse
