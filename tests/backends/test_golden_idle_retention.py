"""The idle rule as a client of timers and state, on both backends, against Flink's classes."""

import pyarrow as pa
import pytest

from idlestate.backends.keyed.descriptors import ValueStateDescriptor
from idlestate.backends.keyed.idle import IdleRetention
from idlestate.backends.keyed.opening import open_backend
from idlestate.retention.policy import Policy, TimeDomain
from idlestate.timers.clock import FakeClock
from tests.golden_files import read_traces

pytestmark = pytest.mark.golden

CLEANS_WHEN_DUE = {"is_processing_time_timer && need_to_cleanup_state", "built in"}
DELETES_FIRST = {"BaseTwoInputStreamOperatorWithStateRetention"}


class Replay:
    """One trace: the rule, its value state and its timers are ours, the function is replayed."""

    def __init__(self, trace, kind, folder, domain):
        self.trace, self.domain = trace, domain
        self.backend = open_backend(kind, folder, clock=FakeClock(trace["ops"][0]["t"]))
        long = pa.int64()
        self.due = self.backend.get_state(ValueStateDescriptor(name="due", value_type=long))
        self.count = self.backend.get_state(ValueStateDescriptor(name="count", value_type=long))
        self.service = self.backend.timer_service("timers", self.fire, self.fire)
        self.calls, self.fired = [], []
        policy = Policy(idle_min_ms=trace["min_ms"], idle_max_ms=trace["max_ms"])
        self.idle = IdleRetention(policy, self.due, self.register, self.delete)
        self.on = policy.idle_on

    def register(self, namespace, ts):
        self.calls.append(["register", ts])
        self.wait(namespace, ts)

    def wait(self, namespace, ts):
        if self.domain is TimeDomain.EVENT:
            self.service.register_event_time_timer(namespace, ts)
        else:
            self.service.register_processing_time_timer(namespace, ts)

    def delete(self, namespace, ts):
        self.calls.append(["delete", ts])
        if self.domain is TimeDomain.EVENT:
            self.service.delete_event_time_timer(namespace, ts)
        else:
            self.service.delete_processing_time_timer(namespace, ts)

    def fire(self, timer):
        cleaned = self.cleans(timer.timestamp_ms, is_own_domain=True)
        self.fired.append((timer.timestamp_ms, timer.key, cleaned))

    def cleans(self, ts, *, is_own_domain):
        """Whether the recorded function cleans the current key on this timer, and the cleaning."""
        mode = self.trace.get("on_timer")
        if mode in CLEANS_WHEN_DUE:
            cleans = is_own_domain and self.idle.is_cleanup_due(ts)
        else:
            cleans = self.on
        if cleans:
            self.idle.forget()
            self.count.clear()
        return cleans

    def step(self, step):
        self.calls, self.fired = [], []
        if self.domain is TimeDomain.EVENT:
            self.service.advance_watermark(step["t"])
        else:
            self.service.advance_processing_time(step["t"])
        recorded = [(each["ts"], each["key"], self.cleaned(each)) for each in step["fired_before"]]
        assert sorted(self.fired) == sorted(recorded)
        self.backend.set_current_key(step["key"])
        match step["op"]:
            case "element":
                self.idle.access(step["t"])
                self.count.update((self.count.value() or 0) + 1)
                if "count" in step:
                    assert self.count.value() == step["count"]
            case "foreign_proc_timer":
                self.wait(None, step["ts"])
            case "event_timer":
                cleaned = self.cleans(step["ts"], is_own_domain=False)
                assert cleaned == step["fired"][0]["cleaned"]
            case "drop_timer":
                self.idle.drop()
            case other:
                pytest.fail(f"unknown operation {other!r}")
        # The two-input operator of Flink deletes before it registers: the same in the end.
        expected = step["timer_calls"]
        if self.trace["class"] in DELETES_FIRST:
            expected = sorted(expected, key=lambda call: call[0] != "register")
        assert self.calls == expected
        assert self.due.value() == step["cleanup_time"]
        if "proc_timers" in step:
            assert self.service.count(self.domain) == step["proc_timers"]

    @staticmethod
    def cleaned(timer):
        return bool(timer.get("cleaned", timer.get("result") in {"cleaned", "FIRE_AND_PURGE"}))


@pytest.mark.parametrize("name", ["idle_cleanup", "idle_cleanup_legacy"])
@pytest.mark.parametrize("kind", ["heap", "rocksdb"])
@pytest.mark.parametrize("domain", TimeDomain)
def test_golden_idle_retention(name, kind, domain, tmp_path, record_property):
    """Recorded in processing time; by watermarks it is the same rule."""
    traces, steps = read_traces(name), 0
    for number, trace in enumerate(traces):
        run = Replay(trace, kind, None if kind == "heap" else tmp_path / str(number), domain)
        for at, step in enumerate(trace["ops"]):
            try:
                run.step(step)
            except AssertionError as error:
                raise AssertionError(f"{trace['trace']} step {at}: {step}\n{error}") from error
            steps += 1
        run.backend.close()
    record_property("traces", len(traces))
    record_property("steps", steps)
    print(f"{name} by {domain.value} time on {kind}: {len(traces)} traces, {steps} steps")
