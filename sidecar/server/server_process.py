"""The sidecar as a process: its parts, and how it starts, reloads and stops."""

import os
import queue
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType

from idlestate.backends.files.folder import Folder
from idlestate.backends.runs.memory_allocator import keep_memory, keep_objects
from idlestate.config.file_watch import FileWatch
from idlestate.config.loading import Config, load_config
from idlestate.config.problems import ConfigError
from idlestate.config.sidecar_settings import Sidecar
from idlestate.metrics.history import HistoryFile
from idlestate.metrics.operator_forecasts import Outlooks
from idlestate.metrics.reload_counts import ReloadCounts
from idlestate.retention.budget import Budget
from idlestate.sidecar.core.data_calls import Calls
from idlestate.sidecar.core.directory_lock import DirectoryLock
from idlestate.sidecar.core.local_placement import LocalPlacement
from idlestate.sidecar.core.operators import Host
from idlestate.sidecar.core.shard_placement import ShardPlacement
from idlestate.sidecar.core.state_folder import StateFolder
from idlestate.sidecar.core.thread_switching import take_short_turns
from idlestate.sidecar.protocol.access_control import TokenFile, knows_clients
from idlestate.sidecar.protocol.data_plane import DataPlane
from idlestate.sidecar.protocol.errors import DamagedDirectoryError, DoesNotFitError, SidecarError
from idlestate.sidecar.protocol.exit_codes import FAILED
from idlestate.sidecar.server.commit_logs import reached_ms
from idlestate.sidecar.server.control_listener import open_control, url_of
from idlestate.sidecar.server.control_plane import ControlPlane
from idlestate.sidecar.server.control_plane_tls import http_tls
from idlestate.sidecar.server.declared_operators import declare_all
from idlestate.sidecar.server.health import Health
from idlestate.sidecar.server.job_scheduler import Scheduler
from idlestate.sidecar.server.metrics_snapshot import SidecarSamples, sidecar_exporter
from idlestate.sidecar.server.open_files_limit import take_descriptors
from idlestate.sidecar.server.operator_snapshot import OperatorSnapshot
from idlestate.sidecar.server.status import sidecar_page
from idlestate.sidecar.server.sweep_and_cleanup_jobs import Background
from idlestate.sidecar.server.systemd_notify import notify
from idlestate.sidecar.stores.store import Store
from idlestate.sidecar.workers.worker_placement import WorkerPlacement
from idlestate.sidecar.workers.worker_supervisor import Workers
from idlestate.timers.clock import SystemClock
from idlestate.timers.steady_clock import SteadyClock

_DRAIN_S, _END_S = 20.0, 5.0
_POLL_S = 1.0
_STEP_NOTICED_MS = 1000
_FORECAST_MS = 60_000
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MENDED = 0
"""No signal has this number: the disk accepts writes again."""


class Process:
    """A sidecar from a configuration file.

    Args:
        config: the file, which has a section `sidecar`.
        watch: detects that the file was saved, since before it was read.
        tell: writes a line to the log.
    """

    def __init__(self, config: Config, watch: FileWatch, tell: Callable[[str], None]) -> None:
        assert config.sidecar is not None
        self._config = config
        self._watch = watch
        self._settings: Sidecar = config.sidecar
        self._follower = tell
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._clock = SteadyClock(SystemClock(), self._settings.max_clock_step_ms)
        self._workers: Workers | None = None
        self._reloading = threading.Lock()
        self._reload = threading.Thread()  # the last reload started by a signal or a saved file
        self._store: Store | None = None
        self._look = threading.Thread()  # the last attempt on a disk that accepted no writes
        self._reloads = ReloadCounts()

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; SIGHUP and a saved file reload.

        Raises:
            DirectoryTakenError: another sidecar uses the directory.
            AccessError, ListenError: an address, token or certificate cannot be used.
            DamagedDirectoryError: the state cannot be read; or a write failed and the disk accepts
                writes again: only a new process can find out which state is on disk.
            DoesNotFitError: an operator of the file is not the one that is stored.
        """
        settings = self._settings
        directory = Path(settings.directory).absolute()
        for each in _SIGNALS:
            signal.signal(each, self._note)
        _settle_in()
        tls = http_tls(settings.tls)  # before workers: Flight would not report errors
        with ExitStack() as stack:
            stack.enter_context(DirectoryLock(directory))
            folder = StateFolder(directory, settings.backend, sync=settings.sync)
            stack.callback(folder.store.close)
            self._store = folder.store
            placement = self._placement(directory, folder, stack)
            self._health = health = Health(folder.store, self._workers, settings.workers)
            host = Host(folder.store, self._clock, reached_ms, placement)
            if isinstance(placement, WorkerPlacement):
                placement.keep(host.named_values())
            declare_all(host, self._config)
            self._host = host
            calls = Calls(host, self._clock)
            scheduler = Scheduler()
            background = Background(host, self._clock, settings, scheduler.stopping)
            self._count_reload(good=True)
            facts = SidecarSamples(
                host, self._clock, calls, scheduler, self._workers, self._reloads
            )
            plane = self._control_plane(host, directory, facts, calls, scheduler)
            token = TokenFile(Path(settings.token_file)) if settings.token_file else None
            control = open_control(self._control(directory), plane, token, tls)
            stack.callback(control.stop)
            data = DataPlane(self._data(directory), calls.table, token, settings.tls)
            stack.callback(data.stop)
            background.plan(scheduler)
            keep_objects()
            scheduler.start()
            stack.callback(scheduler.stop)
            health.is_serving = True
            url = url_of(control, self._control(directory), tls)
            self._tell(f"data at {data.place}, control at {url}")
            notify("READY=1")
            is_mended = self._follow(scheduler)
            health.is_serving = False
            notify("STOPPING=1")
            last = threading.Timer(_DRAIN_S + _END_S, self._cut_off)
            last.daemon = True
            last.start()
            calls.table.drain(_DRAIN_S)
            if self._reload.is_alive():
                self._reload.join()
        self._tell("stopped; all acknowledged writes are kept")
        last.cancel()
        if is_mended:
            raise DamagedDirectoryError(
                f"the disk of {directory} has space again; to accept writes, the sidecar must "
                "be started again"
            )

    def stop_when_closed(self, pipe: int) -> None:
        """Stop as at SIGTERM when a pipe is closed, such as that of a parent process."""

        def wait() -> None:
            while os.read(pipe, 1):
                pass
            self._signals.put(signal.SIGTERM)

        threading.Thread(target=wait, name="idlestate-parent", daemon=True).start()

    # ---- for the control plane

    def reload(self) -> str:
        """Read the file again and apply it as a whole, or refuse it as a whole.

        Raises:
            DoesNotFitError: it is refused; the previous configuration stays in effect.
            SidecarError: it could not be stored; the previous configuration stays in effect.
        """
        with self._reloading:  # the last read of the file wins
            try:
                config = load_config(self._config.file)
                self._refuse_other_changes(config)
                declare_all(self._host, config)
            except (ConfigError, DoesNotFitError) as error:
                self._count_reload(good=False)
                raise DoesNotFitError(
                    f"{error}\nnot applied; the previous configuration stays in effect"
                ) from error
            except SidecarError as error:
                self._count_reload(good=False)
                raise type(error)(f"{error}\nthen reload {config.file} again") from error
            self._config = config
            self._count_reload(good=True)
            return f"{config.file} was reloaded{config.warning_lines}"

    def accept_clock(self) -> None:
        """Accept the wall clock after a jump."""
        self._clock.accept()

    # ---- inside

    def _control_plane(
        self, host: Host, directory: Path, facts: SidecarSamples, calls: Calls, scheduler: Scheduler
    ) -> ControlPlane:
        """The control plane; from now on, the sizes of operators are recorded."""
        folder = Folder(str(directory / "history"))
        outlooks = Outlooks(self._budget_for, lambda uid: HistoryFile(folder, f"{uid}.npy"))
        snapshot = OperatorSnapshot(host, outlooks)
        snapshot.note_sizes(self._clock.now_ms())
        scheduler.add("forecast", _FORECAST_MS, lambda: snapshot.note_sizes(self._clock.now_ms()))
        exporter = sidecar_exporter(snapshot.at, self._clock, facts)
        calls.samples = exporter.samples
        calls.next_ends_ms = lambda: snapshot.next_ends_ms(self._clock.now_ms())
        page = sidecar_page(host, self._clock, snapshot.at, outlooks.sizes)
        is_guarded = knows_clients(self._control(directory), self._settings)
        parts = (host, self._clock, self._health, self, exporter, page)
        return ControlPlane(*parts, changes_allowed=is_guarded)

    def _budget_for(self, uid: str) -> Budget:
        return self._config.budget_for(uid)  # the newest configuration's policies

    def _count_reload(self, *, good: bool) -> None:
        self._reloads.count(good=good, now_ms=self._clock.now_ms())

    def _tell(self, line: str) -> None:
        """Write a line, if that is possible: the log's disk may be full, the terminal closed."""
        with suppress(OSError):
            self._follower(line)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signals.put(number)

    def _follow(self, scheduler: Scheduler) -> bool:
        """Wait for signals, saved files and jumps of the clock; return whether the process must be
        restarted, because its store refuses writes but its disk accepts them.
        """
        offset_ms = self._clock.wall_offset_ms
        is_asked = False
        while True:
            number = self._next_signal()
            if number in (signal.SIGTERM, signal.SIGINT):
                return False
            if number == _MENDED:
                return True
            if self._store is not None and self._store.is_broken and not self._look.is_alive():
                # It may hang with the disk; a signal to stop must be noticed in the meantime.
                self._look = threading.Thread(target=self._look_at, args=[self._store], daemon=True)
                self._look.start()
            is_asked |= number == signal.SIGHUP or self._watch.was_saved()
            if is_asked and not self._reload.is_alive():
                # It may wait for a disk or a worker, while a signal to stop must be noticed.
                self._reload = threading.Thread(target=self._try_reload, daemon=True)
                self._reload.start()
                is_asked = False
            # The steady clock reports a small step only to the first caller.
            before, offset_ms = offset_ms, self._clock.wall_offset_ms
            if abs(offset_ms - before) > _STEP_NOTICED_MS:
                scheduler.realign()

    def _look_at(self, store: Store) -> None:
        if store.is_mended():
            self._signals.put(_MENDED)

    def _next_signal(self) -> int | None:
        try:
            return self._signals.get(timeout=_POLL_S)
        except queue.Empty:
            return None

    def _cut_off(self) -> None:
        """Exit although something hangs: a disk, a worker or a checkpoint."""
        text = (
            f"calls or jobs ran for {_DRAIN_S + _END_S:.0f} s and were aborted; all "
            "acknowledged writes are kept"
        )
        # The output itself may hang: a halted terminal, a full pipe.
        telling = threading.Thread(target=self._tell, args=[text], daemon=True)
        telling.start()
        telling.join(_POLL_S)
        if self._workers is not None:
            self._workers.kill()
        os._exit(FAILED)

    def _try_reload(self) -> None:
        notify("RELOADING=1")
        try:
            self._tell(self.reload())
        except SidecarError as error:
            self._tell(str(error))
        notify("READY=1")

    def _refuse_other_changes(self, config: Config) -> None:
        if config.sidecar is None:
            raise DoesNotFitError(f"{config.file}: the `sidecar:` section is missing; restore it")
        changed = [
            f"sidecar.{field.alias or name}"
            for name, field in Sidecar.model_fields.items()
            if name != "operators"
            and getattr(config.sidecar, name) != getattr(self._settings, name)
        ]
        if changed:
            raise DoesNotFitError(
                f"{config.file}: {', '.join(changed)}: changed, which needs a restart; restore "
                "the previous value, or restart the sidecar"
            )

    def _placement(self, directory: Path, folder: StateFolder, stack: ExitStack) -> ShardPlacement:
        """The placement of the tables: here, or on workers, which this starts."""
        settings = self._settings
        if folder.spread(settings.workers):
            self._tell(f"the tables were moved: workers is {settings.workers} now")
        if settings.workers == 1:
            return LocalPlacement(folder.store, self._clock, settings.cache_mb << 20)
        self._workers = workers = Workers(
            settings, directory, folder, self._data(directory), self._tell
        )
        stack.callback(workers.stop)
        workers.start()
        placement = WorkerPlacement(
            workers.every, workers.places, workers.tidy, workers.bytes_on_disk
        )
        stack.callback(placement.close)
        return placement

    def _data(self, directory: Path) -> str:
        return self._settings.data or f"unix:{directory / 'data.sock'}"

    def _control(self, directory: Path) -> str:
        return self._settings.control or f"unix:{directory / 'control.sock'}"


def _settle_in() -> None:
    """Settings of the whole process, made before its threads are started."""
    keep_memory()
    take_descriptors()
    take_short_turns()
