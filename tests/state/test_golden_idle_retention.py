"""The idle rule as a client of timers and state, on both backends, against Flink's classes."""

import pyarrow as pa
import pytest

from idlestate.retention.policy import Policy, TimeDomain
from idlestate.state.backend_factory import open_backend
from idlestate.state.count_trigger import CountTrigger
from idlestate.state.descriptors import ValueStateDescriptor
from idlestate.state.idle import IdleRetention
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
        spans = {"idle_min_ms": trace["min_ms"], "idle_max_ms": trace["max_ms"], "min_gap_ms": 0}
        self.idle = IdleRetention(Policy(time=domain, **spans), self.due, self)
        self.trigger = None
        if trace["class"] == "StateCleaningCountTrigger":
            self.trigger = CountTrigger(self.idle, self.count, trace["max_count"])

    def register(self, domain, namespace, ts):
        """Notes what the rule registers; as `TimerService.register`."""
        self.calls.append(["register", ts])
        self.service.register(domain, namespace, ts)

    def delete(self, domain, namespace, ts):
        """Notes what the rule deletes; as `TimerService.delete`."""
        self.calls.append(["delete", ts])
        self.service.delete(domain, namespace, ts)

    def fire(self, timer):
        if self.trigger is not None:
            done = self.trigger.on_timer().value
        else:
            done = self.cleans(timer.timestamp_ms, is_own_domain=True)
        self.fired.append((timer.timestamp_ms, timer.key, done))

    def cleans(self, ts, *, is_own_domain):
        """Whether the recorded function cleans the current key on this timer, and the cleaning."""
        mode = self.trace.get("on_timer")
        if mode in CLEANS_WHEN_DUE:
            cleans = is_own_domain and self.idle.is_cleanup_due(ts)
        else:
            cleans = self.idle.is_on
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
        recorded = [(each["ts"], each["key"], self.done(each)) for each in step["fired_before"]]
        assert sorted(self.fired) == sorted(recorded)
        self.backend.set_current_key(step["key"])
        match step["op"]:
            case "element" if self.trigger is not None:
                assert self.trigger.on_element(step["t"]).value == step["result"]
                assert self.count.value() == step["state"]["count"]
            case "element":
                self.idle.access(step["t"])
                self.count.update((self.count.value() or 0) + 1)
                if "count" in step:
                    assert self.count.value() == step["count"]
            case "foreign_proc_timer":
                self.service.register(self.domain, None, step["ts"])
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

    def done(self, timer):
        """What the recorded function did on a timer: a trigger's result, or whether it cleaned."""
        if self.trigger is not None:
            return timer["result"]
        return bool(timer.get("cleaned", timer.get("result") == "cleaned"))


@pytest.mark.parametrize("least", [0, -1])
def test_a_count_trigger_that_never_fires_is_refused(least):
    with open_backend("heap") as backend:
        count = backend.get_state(ValueStateDescriptor(name="count", value_type=pa.int64()))
        timers = backend.timer_service("timers", lambda timer: None, lambda timer: None)
        idle = IdleRetention(Policy(), count, timers)
        with pytest.raises(ValueError, match="must be 1 or more"):
            CountTrigger(idle, count, least)


@pytest.mark.parametrize("name", ["idle_cleanup", "idle_cleanup_legacy"])
@pytest.mark.parametrize("kind", ["heap", "rocksdb", "runs"])
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
