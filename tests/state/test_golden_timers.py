"""The timer service against Flink's, on both queues. Each script was recorded on both."""

from pathlib import Path

import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.retention.rules import NEVER_MS
from idlestate.state.backend_factory import open_backend
from idlestate.timers.clock import FakeClock
from tests.golden_files import read_traces

pytestmark = pytest.mark.golden

DOMAINS = {"proc": TimeDomain.PROCESSING, "event": TimeDomain.EVENT}


class Replay:
    """One trace, on a queue."""

    def __init__(self, trace, queue, folder: Path):
        self.trace, self.queue, self.folder = trace, queue, folder
        self.opened = 0
        self.fired = []
        self.now_ms = trace["start_processing_time"]
        self.open([])

    def open(self, restore):
        self.opened += 1
        self.backend = open_backend(
            self.queue,
            None if self.queue == "heap" else self.folder / f"db{self.opened}",
            max_parallelism=self.trace["max_parallelism"],
            clock=FakeClock(),
            restore=restore,
        )
        self.service = self.backend.timer_service(
            "timers",
            lambda timer: self.on_timer("proc", timer),
            lambda timer: self.on_timer("event", timer),
        )

    def on_timer(self, domain, timer):
        assert self.backend.current_key == timer.key
        self.fired.append([domain, timer.timestamp_ms, timer.key, timer.namespace])
        if timer.namespace == "chain":
            self.register(domain, "n0", timer.timestamp_ms + 7)
        if timer.namespace == "cross":
            other = "event" if domain == "proc" else "proc"
            self.register(other, "n0", timer.timestamp_ms)

    def register(self, domain, namespace, ts):
        if domain == "proc":
            self.service.register_processing_time_timer(namespace, ts)
        else:
            self.service.register_event_time_timer(namespace, ts)

    def step(self, step):
        self.fired = []
        match step["op"]:
            case "register":
                self.backend.set_current_key(step["key"])
                self.register(step["domain"], step["ns"], step["ts"])
            case "delete" if step["domain"] == "proc":
                self.backend.set_current_key(step["key"])
                self.service.delete_processing_time_timer(step["ns"], step["ts"])
            case "delete":
                self.backend.set_current_key(step["key"])
                self.service.delete_event_time_timer(step["ns"], step["ts"])
            case "advance_proc":
                self.service.advance_processing_time(step["ts"])
            case "advance_watermark":
                self.service.advance_watermark(step["ts"])
                assert self.service.current_watermark_ms == step["current_watermark"]
            case "snapshot_restore":
                folder = self.folder / f"snapshot{self.opened}"
                self.backend.snapshot(folder).finish()
                self.backend.close()
                self.open([folder])
                assert self.service.current_watermark_ms == NEVER_MS
            case "list":
                if self.trace["queue"] == "heap":
                    assert self.listed() == sorted(step["timers"])
            case other:
                pytest.fail(f"unknown operation {other!r}")
        if "fired" in step:
            assert in_ties(self.fired) == in_ties(step["fired"])
        assert self.service.count(TimeDomain.PROCESSING) == step["proc_timers"]
        assert self.service.count(TimeDomain.EVENT) == step["event_timers"]
        scheduled = self.service.scheduled_ms
        assert ([] if scheduled is None else [scheduled]) == step["scheduled"]

    def listed(self):
        return sorted(
            f"{name}|{timer.timestamp_ms}|{timer.key}|{timer.namespace}"
            for name, domain in DOMAINS.items()
            for timer in self.service.timers(domain)
        )


def in_ties(fired):
    """Timers of one time fire in an order nobody promised; the domains go one after the other."""
    assert [each[1] for each in fired] == sorted(each[1] for each in fired)
    return sorted(fired, key=str)


@pytest.mark.parametrize(
    ("queue", "recorded"),
    [
        *(("heap", "heap"), ("heap", "rocksdb"), ("runs", "heap"), ("runs", "rocksdb")),
        ("rocksdb", "heap"),
        pytest.param("rocksdb", "rocksdb", marks=pytest.mark.long),  # the same but for the lists
    ],
)
def test_golden_timers(queue, recorded, tmp_path, record_property):
    traces, steps = [each for each in read_traces("timers") if each["queue"] == recorded], 0
    for number, trace in enumerate(traces):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = Replay(trace, queue, folder)
        for at, step in enumerate(trace["ops"]):
            try:
                run.step(step)
            except AssertionError as error:
                raise AssertionError(f"{trace['trace']} step {at}: {step}\n{error}") from error
            steps += 1
        run.backend.close()
    record_property("traces", len(traces))
    record_property("steps", steps)
    print(f"timers of {recorded} on {queue}: {len(traces)} traces, {steps} steps")
