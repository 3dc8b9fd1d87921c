"""A worker: a process that keeps the tables of a range of shards and works on them by request.

The sidecar's process starts it, writes its settings as one line of JSON to its standard input, and
keeps that open: when the sidecar's process ends for any reason, the worker ends. The worker answers
with one line: where it listens, or why it cannot.
"""

import json
import os
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from idlestate.config.sidecar_settings import Tls
from idlestate.sidecar.protocol.call_table import CallTable, stage_calls
from idlestate.sidecar.protocol.errors import SidecarError
from idlestate.sidecar.protocol.transfers import Stage
from idlestate.sidecar.server.access_control import AccessError, TokenFile
from idlestate.sidecar.server.data_plane import DataPlane
from idlestate.sidecar.server.directory_lock import DirectoryLock, DirectoryTakenError
from idlestate.sidecar.server.memory_allocator import keep_memory, keep_objects
from idlestate.sidecar.server.state_folder import RANGE_PATIENCE_S, open_store
from idlestate.sidecar.server.thread_switching import take_short_turns
from idlestate.sidecar.stores.store import Store
from idlestate.sidecar.workers.worker_calls import WorkerCalls
from idlestate.timers.clock import SystemClock

_END_S = 10.0
_POLL_S = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker.

    Attributes:
        folder: the folder of its store.
        backend, sync, cache_bytes: those of the sidecar.
        inner: the socket for the sidecar's process.
        listen: the address for clients, which send rows there.
        token_file, tls: how clients are authenticated.
    """

    folder: str
    backend: str
    sync: bool
    cache_bytes: int
    inner: str
    listen: str
    token_file: str | None
    tls: dict[str, Any] | None

    def to_line(self) -> bytes:
        """The settings as the line that it reads."""
        return json.dumps(asdict(self)).encode() + b"\n"


def serve(settings: WorkerSettings) -> None:
    """Serve until standard input ends, or until a restart can mend a store that refuses writes.

    Raises:
        SidecarError, AccessError, DirectoryTakenError, OSError: it cannot serve.
    """
    folder = Path(settings.folder)
    is_up, is_over = threading.Event(), threading.Event()

    def follow_input() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        if not is_up.is_set():
            os._exit(1)  # the next process needs the folder, however long this start takes
        is_over.set()

    def follow_disk(store: Store) -> None:
        while not is_over.wait(_POLL_S):
            if store.is_broken and store.is_mended():
                is_over.set()

    threading.Thread(target=follow_input, name="idlestate-parent", daemon=True).start()
    with ExitStack() as stack:
        stack.enter_context(DirectoryLock(folder, RANGE_PATIENCE_S))
        store = open_store(folder / "store", settings.backend, sync=settings.sync)
        stack.callback(store.close)
        stage = Stage(SystemClock())
        calls = WorkerCalls(store, stage, settings.cache_bytes)
        inner = DataPlane(f"unix:{settings.inner}", calls.table, None, None)
        stack.callback(inner.stop)
        token = TokenFile(Path(settings.token_file)) if settings.token_file else None
        tls = Tls.model_validate(settings.tls) if settings.tls else None
        outer = DataPlane(settings.listen, CallTable(stage_calls(stage)), token, tls)
        stack.callback(outer.stop)
        keep_objects()
        is_up.set()
        _tell({"place": outer.place})
        # It may hang with the disk; the end of the input must be noticed in the meantime.
        threading.Thread(target=follow_disk, args=[store], daemon=True).start()
        is_over.wait()
        last = threading.Timer(_END_S, os._exit, [1])  # nobody waits for a call any more
        last.daemon = True
        last.start()


def main() -> int:
    """Run; return the exit code."""
    # A terminal or a service manager signals all processes; the sidecar's process ends this one.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    keep_memory()
    take_short_turns()
    line = sys.stdin.buffer.readline()
    if not line:
        return 1  # the parent has died at once
    try:
        serve(WorkerSettings(**json.loads(line)))
    except (SidecarError, AccessError, DirectoryTakenError, OSError) as error:
        _tell({"error": str(error)})
        return 1
    return 0


def _tell(facts: dict[str, str]) -> None:
    with suppress(BrokenPipeError):  # nobody reads it; then the input has ended too
        os.write(sys.stdout.fileno(), json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
