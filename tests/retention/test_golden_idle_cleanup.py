"""The idle rule against what Apache Flink's own classes did (tests/golden/README.md).

The replay keeps Flink's timers: one set of (timestamp, key) that fires when the clock passes,
timers that nobody needs any more included. It asks the rule three things only: whether an access
re-arms, what the cleanup time then is, and whether a key is due. What a function cleans on other
timers, or forgets when told to, is that function's doing and is replayed as recorded.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from idlestate.retention.policy import Policy
from idlestate.retention.rules import (
    NEVER_MS,
    armed_cleanup_at,
    cleanup_at,
    is_due,
    needs_rearm,
)
from tests.golden_files import read_traces

pytestmark = pytest.mark.golden

Step = dict[str, Any]

CALLS_DELETE_FIRST = {"BaseTwoInputStreamOperatorWithStateRetention"}
CLEANS_WHEN_DUE = {"is_processing_time_timer && need_to_cleanup_state", "built in"}
CLEANS_ON_ANY_TIMER = {"any timer, if enabled"}


@dataclass
class KeyState:
    """What one key has: its times and what the recorded function counted."""

    armed_at_ms: int = NEVER_MS
    last_access_ms: int = NEVER_MS
    cleanup_at_ms: int | None = None
    counts: dict[str, int] = field(default_factory=dict)

    def forget_timer(self) -> None:
        self.armed_at_ms, self.cleanup_at_ms = NEVER_MS, None

    def add(self, name: str) -> int:
        self.counts[name] = self.counts.get(name, 0) + 1
        return self.counts[name]


@dataclass
class Decisions:
    """Every question asked of the scalar rule, to be asked again of arrays."""

    rearm: list[tuple[int, int, bool]] = field(default_factory=list)
    cleanup: list[tuple[int, int, int]] = field(default_factory=list)
    due: list[tuple[int, int, bool]] = field(default_factory=list)


class Replay:
    """One trace: Flink's timers around idlestate's rule."""

    def __init__(self, trace: dict[str, Any]) -> None:
        self.trace = trace
        self.policy = Policy(idle_min_ms=trace["min_ms"], idle_max_ms=trace["max_ms"], min_gap_ms=0)
        self.keys: dict[str, KeyState] = {}
        self.timers: set[tuple[int, str]] = set()
        self.decisions = Decisions()

    def run(self) -> int:
        """Replay every step; the number of steps."""
        assert self.policy.idle_on is self.trace["enabled"]
        for number, step in enumerate(self.trace["ops"]):
            where = f"{self.trace['trace']} step {number}: {step}"
            fired = self.fire(step["t"])
            assert in_ties(fired) == in_ties(step["fired_before"]), where
            calls = self.do(step, where)
            state = self.keys.get(step["key"], KeyState())
            assert calls == step["timer_calls"], where
            assert state.cleanup_at_ms == step["cleanup_time"], where
            if "proc_timers" in step:
                assert len(self.timers) == step["proc_timers"], where
            if "state" in step and self.trace["class"] != "StateCleaningCountTrigger":
                expected = {name: count for name, count in step["state"].items() if count}
                assert state.counts == expected, where
        return len(self.trace["ops"])

    def do(self, step: Step, where: str) -> list[list[Any]]:
        """Run one operation; the timer calls that the retention logic makes."""
        key, state = step["key"], self.keys.setdefault(step["key"], KeyState())
        match step["op"]:
            case "element":
                calls = self.access(key, state, step["t"])
                self.count(step, state, where)
                return calls
            case "foreign_proc_timer":
                self.timers.add((step["ts"], key))
            case "event_timer":
                cleaned = self.on_timer(key, step["ts"], is_processing_time=False)
                event = {"ts": step["ts"], "key": key, "domain": "event", "cleaned": cleaned}
                assert step["fired"] == [event], where
            case "drop_timer" if state.cleanup_at_ms is not None:
                dropped = state.cleanup_at_ms
                self.timers.discard((dropped, key))
                state.forget_timer()
                return [["delete", dropped]]
            case "drop_timer":
                pass
            case other:
                pytest.fail(f"unknown operation {other!r} in {where}")
        return []

    def access(self, key: str, state: KeyState, t_ms: int) -> list[list[Any]]:
        """An element at t: the rule arms, the replay books the timers."""
        if not self.policy.idle_on:
            return []
        state.last_access_ms = t_ms
        old = state.cleanup_at_ms
        if old is not None:
            rearms = bool(needs_rearm(t_ms, old, self.policy.idle_min_ms))
            self.decisions.rearm.append((t_ms, old, rearms))
            if not rearms:
                self.ask_cleanup(state)
                return []
        state.armed_at_ms = t_ms
        state.cleanup_at_ms = int(armed_cleanup_at(t_ms, self.policy.idle_max_ms))
        self.ask_cleanup(state)
        calls: list[list[Any]] = [["register", state.cleanup_at_ms]]
        if old is not None:
            self.timers.discard((old, key))
            delete: list[Any] = ["delete", old]
            first = self.trace["class"] in CALLS_DELETE_FIRST
            calls = [delete, *calls] if first else [*calls, delete]
        self.timers.add((state.cleanup_at_ms, key))
        return calls

    def ask_cleanup(self, state: KeyState) -> None:
        """The form that policy changes use gives the same cleanup time while none happens."""
        found = int(cleanup_at(state.armed_at_ms, state.last_access_ms, self.policy))
        assert found == state.cleanup_at_ms
        self.decisions.cleanup.append((state.armed_at_ms, state.last_access_ms, found))

    def count(self, step: Step, state: KeyState, where: str) -> None:
        """What the recorded function does with an element beside retention."""
        match self.trace["class"]:
            case "StateCleaningCountTrigger":
                pass  # `CountTrigger` counts, and is replayed in tests/state
            case "CoProcessFunctionWithCleanupState":
                state.add("l" if step["side"] == 1 else "r")
            case _:
                assert state.add("count") == step["count"], where

    def fire(self, t_ms: int) -> list[Step]:
        """Fire every timer that the clock passes on its way to t, in order of time."""
        fired: list[Step] = []
        for ts, key in sorted(timer for timer in self.timers if timer[0] <= t_ms):
            self.timers.discard((ts, key))
            cleaned = self.on_timer(key, ts, is_processing_time=True)
            match self.trace["class"]:
                case "StateCleaningCountTrigger":
                    result = "FIRE_AND_PURGE" if cleaned else "CONTINUE"
                    fired.append({"ts": ts, "key": key, "result": result})
                case "CoProcessFunctionWithCleanupState":
                    fired.append({"ts": ts, "key": key, "result": "cleaned" if cleaned else ""})
                case _:
                    fired.append({"ts": ts, "key": key, "domain": "proc", "cleaned": cleaned})
        for state in self.keys.values():
            if state.cleanup_at_ms is not None:
                assert not self.ask_due(state.cleanup_at_ms, t_ms)
        return fired

    def on_timer(self, key: str, ts: int, *, is_processing_time: bool) -> bool:
        """Whether the function cleans the key on this timer, and the cleaning."""
        state = self.keys.setdefault(key, KeyState())
        mode = self.trace.get("on_timer")
        if mode in CLEANS_WHEN_DUE:
            stored = state.cleanup_at_ms
            cleans = is_processing_time and stored is not None and self.ask_due(stored, ts)
            if cleans:
                assert stored is not None
                assert not self.ask_due(stored, ts - 1)
        else:
            assert mode is None or mode in CLEANS_ON_ANY_TIMER, f"unknown check {mode!r}"
            cleans = self.policy.idle_on
        if cleans:
            state.forget_timer()
            state.counts.clear()
        return cleans

    def ask_due(self, deadline_ms: int, t_ms: int) -> bool:
        due = bool(is_due(deadline_ms, t_ms))
        self.decisions.due.append((deadline_ms, t_ms, due))
        return due


def in_ties(fired: list[Step]) -> list[Step]:
    """Timers of equal timestamp fire in an order that nobody promised: sort those by key."""
    assert [timer["ts"] for timer in fired] == sorted(timer["ts"] for timer in fired)
    return sorted(fired, key=lambda timer: (timer["ts"], timer["key"]))


def assert_arrays_agree(replay: Replay) -> int:
    """The same questions asked of whole arrays at once; the number of answers compared."""
    policy, asked = replay.policy, replay.decisions
    for rows, answer in (
        (asked.rearm, lambda t, cleanup: needs_rearm(t, cleanup, policy.idle_min_ms)),
        (asked.cleanup, lambda armed, last: cleanup_at(armed, last, policy)),
        (asked.due, is_due),
    ):
        compare(rows, answer)
    return len(asked.rearm) + len(asked.cleanup) + len(asked.due)


def compare(rows: list[Any], answer: Callable[..., Any]) -> None:
    if not rows:
        return
    left, right, expected = (np.array(column) for column in zip(*rows, strict=True))
    np.testing.assert_array_equal(answer(left.astype(np.int64), right.astype(np.int64)), expected)


@pytest.mark.parametrize("name", ["idle_cleanup", "idle_cleanup_legacy"])
def test_golden_replay(name, record_property):
    traces = read_traces(name)
    steps = answers = 0
    for trace in traces:
        replay = Replay(trace)
        steps += replay.run()
        answers += assert_arrays_agree(replay)
    assert steps == sum(len(trace["ops"]) for trace in traces)
    assert answers > 0 or not any(trace["enabled"] for trace in traces)
    record_property("traces", len(traces))
    record_property("steps", steps)
    print(f"{name}: {len(traces)} traces, {steps} steps, {answers} answers of the array form")
