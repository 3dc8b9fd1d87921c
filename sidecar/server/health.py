"""The health of a sidecar, for liveness and readiness probes.

`/healthz`: the process answers. `/readyz`: it also accepts every call. It is not ready before its
start is complete, while it stops, while one of its workers restarts, and while its disk accepts no
writes.
"""

from http import HTTPStatus
from typing import Protocol

from idlestate.web.http_reply import Reply, error_reply


class _Store(Protocol):
    @property
    def is_broken(self) -> bool: ...


class _Workers(Protocol):
    @property
    def up(self) -> int: ...


class Health:
    """Whether a sidecar is ready; any thread may ask.

    Args:
        store: its store.
        workers: its worker processes, if it has any.
        expected: how many workers must be up.

    Attributes:
        is_serving: whether its start is complete and it does not stop yet; set by the process.
    """

    def __init__(self, store: _Store, workers: _Workers | None, expected: int) -> None:
        self.is_serving = False
        self._store = store
        self._workers = workers
        self._expected = expected

    @property
    def problem(self) -> str | None:
        """Why it is not ready; None if it is."""
        if not self.is_serving:
            return "it is starting or stopping"
        if self._store.is_broken:
            return "it cannot write to its disk"
        if self._workers is not None and (up := self._workers.up) < self._expected:
            return (
                f"{self._expected - up} of {self._expected} workers are restarting or cannot write"
            )
        return None

    def healthz(self) -> Reply:
        """The answer to `/healthz`."""
        return Reply(b"ok\n")

    def readyz(self) -> Reply:
        """The answer to `/readyz`: 200 if it is ready, else 503 with the reason."""
        problem = self.problem
        if problem is None:
            return Reply(b"ready\n")
        return error_reply(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {problem}")
