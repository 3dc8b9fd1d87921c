"""Borders between any two calls of a test on runs: commits, merges, new starts, restores.

The test need not know: states, timer services and queues that it holds go on, over what was read
from the folder again. The current key, namespaces and the watermark are set again, as a program
does that starts again.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import FunctionType, GeneratorType
from typing import Any
from weakref import WeakSet

import pytest

from idlestate.backends.files import committed_folder
from idlestate.state.backend import KeyedStateBackend
from idlestate.state.runs.runs_backend import RunsKeyedStateBackend
from idlestate.state.runs.runs_timers import RunsTimerQueue
from idlestate.state.snapshot import SnapshotMode
from idlestate.state.state import State
from idlestate.timers.timer_service import TimerService

KINDS = {"commit": 3, "merge": 2, "reopen": 2, "restore": 1}
"""The kinds of borders, and how often each is among them."""

WITHOUT_BORDERS = {"commit", "compact", "close"}
"""Calls that are borders themselves, or the end; none comes inside them either."""

WITH_BORDERS = {"__len__", "__iter__"}
"""Of the methods with such names those that are calls."""


class BatchBorders:
    """The borders of one test: often at first, then at fewer and fewer of its calls.

    Attributes:
        done: how many borders of each kind there were.
    """

    def __init__(self, seed: str, *, often: float, kinds: dict[str, int] | None = None) -> None:
        """About so many borders per backend, times the logarithm of its calls."""
        self.done: Counter[str] = Counter()
        self._chance, self._often, self._kinds = random.Random(seed), often, kinds or KINDS
        self._calls: dict[RunsKeyedStateBackend, int] = {}
        self._descriptors: dict[RunsKeyedStateBackend, dict[str, Any]] = {}
        self._walks: WeakSet[Any] = WeakSet()
        self._open: Callable[..., None] = RunsKeyedStateBackend.__init__
        self._is_inside = False

    def set_between_calls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have a border come before calls of states, timers and backends from now on."""

        @wraps(self._open)
        def opened(backend: RunsKeyedStateBackend, *given: Any) -> None:
            self._open(backend, *given)
            self._calls[backend], self._descriptors[backend] = 0, {}

        for kind in [*subclasses(State), TimerService, KeyedStateBackend, *OF_RUNS]:
            for name, call in list(vars(kind).items()):
                is_call = not name.startswith("_") or name in WITH_BORDERS
                if isinstance(call, FunctionType) and is_call:
                    monkeypatch.setattr(kind, name, self._with_border(call))
        monkeypatch.setattr(RunsKeyedStateBackend, "__init__", opened)
        monkeypatch.setattr(committed_folder, "_sync", lambda path: None)  # nothing loses power

    def _with_border(self, call: FunctionType) -> Callable[..., Any]:
        @wraps(call)
        def with_border(of: Any, *given: Any, **named: Any) -> Any:
            if self._is_inside or not self._calls:
                return call(of, *given, **named)
            self._is_inside = True
            try:
                if call.__name__ not in WITHOUT_BORDERS:
                    self._before_call()
                result = call(of, *given, **named)
                if call.__name__ == "get_state" and of in self._descriptors:
                    self._descriptors[of].setdefault(result.name, given[0])
            finally:
                self._is_inside = False
            if isinstance(result, GeneratorType):
                self._walks.add(result)
            return result

        return with_border

    def _before_call(self) -> None:
        for backend in list(self._calls):
            if backend._closed:
                del self._calls[backend], self._descriptors[backend]
                continue
            self._calls[backend] += 1
            if self._chance.random() < self._often / (self._often + self._calls[backend]):
                (kind,) = self._chance.choices(list(self._kinds), list(self._kinds.values()))
                self.border(backend, kind)

    def border(self, backend: RunsKeyedStateBackend, kind: str) -> None:
        """A border of this kind, or where it would end what the test has begun, a commit."""
        if kind == "restore" and any(ttl.config.full_snapshot for ttl in backend._ttls.values()):
            kind = "reopen"  # a snapshot would leave out what has expired
        is_walked = any(walk.gi_frame is not None for walk in self._walks)
        if kind != "merge" and (backend._held or backend._sweeps or is_walked):
            kind = "commit"
        self.done[kind] += 1
        match kind:
            case "commit":
                backend.commit()
            case "merge":
                backend.compact()
            case "reopen":
                backend.commit()
                self._start_again(backend, [])
            case "restore":
                folder = backend._folder.path.with_name(f"{backend._folder.path.name}-snapshot")
                mode = self._chance.choice(list(SnapshotMode))
                backend.snapshot(folder, mode).finish()
                shutil.rmtree(backend._folder.path)
                self._start_again(backend, [folder])
                shutil.rmtree(folder)

    def _start_again(self, backend: RunsKeyedStateBackend, restore: list[Path]) -> None:
        """Close the backend, and open it as the same object: the test keeps what it holds."""
        held, descriptors = dict(vars(backend)), self._descriptors[backend]
        backend._let_go()
        settings = replace(held["_settings"], restore=restore)
        self._open(backend, held["_folder"].path, settings)
        for name in ("watermark", "_context", "_services"):
            setattr(backend, name, held[name])
        for name, state in held["_states"].items():
            namespace = state.namespace
            take_over(state, backend.get_state(descriptors[name]))
            state.namespace, backend._states[name] = namespace, state
        for name, queue in held["_queues"].items():
            take_over(queue, backend._queue(name))
            backend._queues[name] = queue


OF_RUNS = (RunsKeyedStateBackend, RunsTimerQueue)


def subclasses(kind: type) -> Iterator[type]:
    """The class and all below it."""
    yield kind
    for each in kind.__subclasses__():
        yield from subclasses(each)


def take_over(held: Any, fresh: Any) -> None:
    """Make an object that a test holds what was just opened."""
    assert type(held) is type(fresh)
    vars(held).clear()
    vars(held).update(vars(fresh))
