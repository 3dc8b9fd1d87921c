"""Scenarios recorded by hand-written calls; the calls are read from the recording."""

import json
import re
from contextlib import ExitStack

import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.state.backend_factory import open_backend
from idlestate.timers.clock import FakeClock
from tests.golden_files import read_traces
from tests.state.golden_state import (
    BACKENDS,
    WRONG_MS,
    descriptor_of,
    error_name,
    plain,
    raw_of,
    run_op,
    runs_forward,
    ttl_of,
)
from tests.state.state_steps import in_recorded_order

pytestmark = pytest.mark.golden

CALL = re.compile(r"(\w+)\((.*)\)( at \d+)?$")
KEY = "k"
VOID = {"add", "addAll", "update", "put", "putAll", "clear", "remove"}


def default_of(trace):
    """The descriptor's default: not recorded by itself, but the first read without TTL shows it."""
    if "default" not in trace["scenario"]:
        return None
    first = trace["steps"][0]
    without_ttl = trace["update_type"] == "Disabled" and first["do"] == "value()"
    return first["result"] if without_ttl else "the default"


class Scenario:
    """One line of the recording."""

    def __init__(self, trace, folder, stack, time):
        self.clock = FakeClock()
        self.trace, self.time = trace, time
        kind = BACKENDS[trace["backend"]]
        self.backend = stack.enter_context(
            open_backend(
                kind,
                None if kind == "heap" else folder,
                max_parallelism=trace["max_parallelism"],
                clock=self.clock if time is TimeDomain.PROCESSING else FakeClock(WRONG_MS),
            )
        )
        more = {"default": default_of(trace)} if trace["kind"] == "value" else {}
        self.state = self.backend.get_state(
            descriptor_of(trace["kind"], ttl_of(trace, time), **more)
        )
        self.backend.set_current_key(KEY)
        self.held = self.iterator = None

    def do(self, text):
        """Run a recorded call; what it gives back."""
        space, _, call = text.rpartition("ns ")[2].partition(": ")
        if text.startswith("ns "):
            self.state.set_current_namespace(space)
            return self.call(call)
        if merge := re.match(r"mergeNamespaces\(target (\w+), sources \[(.*)\]\)", text):
            return self.state.merge_namespaces(merge[1], merge[2].split(", "))
        if text == "hold = get()":
            self.held = self.state.get()
            return None
        if text.startswith("iterate hold"):
            return list(self.held)
        if text == "get() == null":
            return self.state.get() is None
        if set_value := re.match(r"iterator\(\)\.next\(\)\.setValue\((.*)\)", text):
            next(in_recorded_order(self.state)).value = json.loads(set_value[1])
            return None
        if re.match(r"it\b", text):
            for part in text.split("; "):
                self.move(part)
            return None
        return self.call(text)

    def move(self, part):
        match part:
            case "it = iterator()":
                self.iterator = in_recorded_order(self.state)
            case "it.next()":
                next(self.iterator)
            case "it.hasNext()":
                self.iterator.has_next()
            case "it.remove()":
                self.iterator.remove()
            case other:
                pytest.fail(f"unknown call {other!r}")

    def call(self, text):
        op, args, _ = CALL.match(text).groups()
        return run_op(self.state, op, json.loads(f"[{args}]"))

    def step(self, step):
        self.clock.advance(step["t"] - self.clock.now_ms())
        if self.time is TimeDomain.EVENT:
            self.backend.watermark.advance(step["t"])
        error = result = None
        try:
            result = plain(self.do(step["do"]))
        except Exception as raised:  # noqa: BLE001 - compared with the recorded one
            error = error_name(raised)
        assert error == step.get("error")
        assert error or result == step.get("result")
        in_namespaces = any("ns " in each["do"] for each in self.trace["steps"])
        if "raw_error" not in step and not in_namespaces:
            assert raw_of(self.state, KEY) == step["raw"]
        assert self.backend.size("state") == step["size"]


@pytest.mark.parametrize("on_runs", [False, True], ids=["recorded", "runs"])
@pytest.mark.parametrize("time", TimeDomain)
def test_golden_edge_cases(time, on_runs, tmp_path, record_property):
    """Also by event time, but for clocks that run back: a watermark does not."""
    traces, steps = read_traces("ttl_edge_cases", "steps"), 0
    if on_runs:
        traces = [each | {"backend": "runs"} for each in traces if each["backend"] == "hashmap"]
    if time is TimeDomain.EVENT:
        traces = [trace for trace in traces if runs_forward(trace["steps"])]
    for number, trace in enumerate(traces):
        with ExitStack() as stack:
            run = Scenario(trace, tmp_path / str(number), stack, time)
            for at, step in enumerate(trace["steps"]):
                try:
                    run.step(step)
                except AssertionError as error:
                    where = f"{trace['scenario']} on {trace['backend']} step {at}: {step}"
                    raise AssertionError(f"{where}\n{error}") from error
                steps += 1
    record_property("traces", len(traces))
    record_property("steps", steps)
    print(f"ttl_edge_cases by {time.value}: {len(traces)} scenarios, {steps} steps")
