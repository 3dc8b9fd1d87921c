"""Serves the tables of a range of shards in a worker process."""

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from idlestate.backends.runs.memory_allocator import keep_memory, keep_objects
from idlestate.sidecar.core.directory_lock import DirectoryLock, DirectoryTakenError
from idlestate.sidecar.core.state_folder import RANGE_PATIENCE_S, open_store
from idlestate.sidecar.core.thread_switching import take_short_turns
from idlestate.sidecar.protocol.access_control import AccessError, TokenFile
from idlestate.sidecar.protocol.call_table import CallTable, stage_calls
from idlestate.sidecar.protocol.data_plane import DataPlane
from idlestate.sidecar.protocol.errors import SidecarError
from idlestate.sidecar.protocol.transfers import Stage
from idlestate.sidecar.stores.store import Store
from idlestate.sidecar.workers.worker_calls import WorkerCalls
from idlestate.sidecar.workers.worker_settings import WorkerSettings
from idlestate.timers.clock import SystemClock

if TYPE_CHECKING:
    from idlestate.config.sidecar_settings import Tls

_END_S = 10.0
_POLL_S = 1.0
Tell = Callable[[Mapping[str, str]], None]


def run(settings: WorkerSettings, tell: Tell) -> int:
    """Serve until the end; report the address, or why it cannot listen. Returns the exit code."""
    keep_memory()
    take_short_turns()
    try:
        _serve(settings, tell)
    except (SidecarError, AccessError, DirectoryTakenError, OSError) as error:
        tell({"error": str(error)})
        return 1
    return 0


def _serve(settings: WorkerSettings, tell: Tell) -> None:
    """Serve until standard input ends, or until a restart can repair a store that refuses
    writes.
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
        tls = _certificates(settings.tls) if settings.tls else None
        outer = DataPlane(settings.listen, CallTable(stage_calls(stage)), token, tls)
        stack.callback(outer.stop)
        keep_objects()
        is_up.set()
        tell({"place": outer.place})
        # It may hang with the disk; the end of the input must be noticed in the meantime.
        threading.Thread(target=follow_disk, args=[store], daemon=True).start()
        is_over.wait()
        last = threading.Timer(_END_S, os._exit, [1])  # nobody waits for a call any more
        last.daemon = True
        last.start()


def _certificates(fields: Mapping[str, Any]) -> "Tls":
    # Importing the file models takes a third of a worker's start time, and few workers need
    # certificates.
    from idlestate.config.sidecar_settings import Tls  # noqa: PLC0415

    return Tls.model_validate(fields)
