"""What a sidecar notices while it serves: signals, saved files, clocks that are set."""

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from idlestate.config.file_watch import FileWatch
from idlestate.config.loading import load_config
from idlestate.sidecar.server import serving
from idlestate.sidecar.server.server_process import Process
from idlestate.timers.steady_clock import MAX_STEP_MS, SteadyClock
from tests.patience import PATIENCE_S
from tests.timers.test_steady_clock import HOUR_MS, SetClock


class Scheduler:
    """Counts how often the clock was found to have been set."""

    realigned = 0

    def realign(self) -> None:
        self.realigned += 1


@pytest.fixture
def process(tmp_path: Path) -> Process:
    file = tmp_path / "sidecar.json"
    file.write_text(json.dumps({"version": 1, "sidecar": {"directory": str(tmp_path / "s")}}))
    return Process(load_config(file), FileWatch.taken(file), print)


def follow(process: Any, *between: Callable[[], object]) -> Scheduler:
    """Let it follow until SIGTERM, with things that happen between its looks."""
    scheduler, left = Scheduler(), list(between)

    def next_signal() -> int | None:
        if not left:
            return signal.SIGTERM
        left.pop(0)()
        return None

    process._next_signal = next_signal
    process._follow(scheduler)
    if process._reload.is_alive():
        process._reload.join()
    return scheduler


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS, MAX_STEP_MS, -MAX_STEP_MS])
def test_jobs_begin_anew_when_the_clock_was_set_whoever_asks_it_first(
    process: Any, by_ms: int
) -> None:
    machine = SetClock()
    process._clock = SteadyClock(machine)

    def set_clock() -> None:
        machine.set_by_ms = by_ms
        process._clock.now_ms()  # as every call of a client asks

    assert follow(process, lambda: None, set_clock, lambda: None).realigned == 1


def test_a_file_that_is_saved_while_the_sidecar_starts_is_read_again(process: Any) -> None:
    reloads: list[bool] = []
    process._try_reload = lambda: reloads.append(True)
    follow(process, *[lambda: None] * 3)
    assert reloads == []
    with Path(process._config.file).open("a") as file:
        file.write("\n")
    follow(process, *[lambda: None] * 3)
    assert reloads == [True]


def test_a_file_that_is_saved_as_soon_as_it_was_read_is_read_again(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a sidecar is made of takes its time to be imported, too."""
    file, reloads = Path(process._config.file), []

    def read_and_save(path: Path) -> Any:
        config = load_config(path)
        file.write_text(file.read_text() + "\n")
        return config

    def run(started: Any) -> None:
        started._try_reload = lambda: reloads.append(True)
        follow(started, *[lambda: None] * 3)

    monkeypatch.setattr(serving, "load_config", read_and_save)
    monkeypatch.setattr(Process, "run", run)
    assert serving.serve(file, print) == 0
    assert reloads == [True]


def test_a_signal_to_stop_is_heard_while_a_reload_hangs(process: Any) -> None:
    """It may wait for a worker or a disk."""
    hangs, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        go_on.wait()

    process._try_reload = hang
    following = threading.Thread(target=process._follow, args=[Scheduler()], daemon=True)
    for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM):
        process._signals.put(number)
    following.start()
    following.join(PATIENCE_S)
    assert hangs.is_set()
    assert not following.is_alive()
    go_on.set()
    process._reload.join()


def test_what_hangs_is_cut_off_though_it_is_the_one_that_should_hear_of_it(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, codes = threading.Event(), []
    process._follower = lambda _: go_on.wait()
    monkeypatch.setattr("idlestate.sidecar.server.server_process._POLL_S", 0)
    monkeypatch.setattr("os._exit", codes.append)
    last = threading.Thread(target=process._cut_off, daemon=True)
    last.start()
    last.join(PATIENCE_S)
    go_on.set()
    assert codes == [1]


def test_of_two_reloads_at_once_the_one_that_read_the_file_last_counts(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGHUP and the control plane may both ask, with a file that is saved in between."""
    held, threads = [], []

    def read_and_ask_again(file: Path) -> Any:
        if not threads:  # the other one comes while this one has read and not yet declared
            threads.append(threading.Thread(target=process.reload))
            threads[0].start()
        return load_config(file)

    def note(_host: object, config: object) -> None:
        held.append((threading.current_thread() is threads[0], process._reloading.locked()))

    process._host, process._facts = None, SimpleNamespace(count_reload=lambda *, good: None)
    monkeypatch.setattr("idlestate.sidecar.server.server_process.load_config", read_and_ask_again)
    monkeypatch.setattr("idlestate.sidecar.server.server_process.declare_all", note)
    process.reload()
    threads[0].join()
    assert held == [(False, True), (True, True)]


def test_a_disk_that_hangs_while_it_is_looked_at_keeps_nobody_from_stopping_it(
    process: Any,
) -> None:
    is_over = threading.Event()

    def is_mended() -> bool:
        process._signals.put(signal.SIGTERM)
        return is_over.wait(PATIENCE_S)

    process._store = SimpleNamespace(is_broken=True, is_mended=is_mended)
    threading.Timer(3, is_over.set).start()  # of a process that would wait for the disk
    assert not process._follow(Scheduler())
    assert not is_over.is_set()
    is_over.set()
    process._look.join()
    assert process._follow(Scheduler())  # it takes writes again
