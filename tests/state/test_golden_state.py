"""Keyed state against what Apache Flink's own classes did (tests/golden/README.md)."""

from contextlib import ExitStack

import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.state.runs import runs_items
from tests.golden_files import read_traces
from tests.lengths import short_and_long
from tests.state.golden_state import (
    STEPS_BETWEEN_SIZES,
    Replay,
    has_items,
    may_differ,
    replay,
    runs_forward,
)

pytestmark = pytest.mark.golden


RECORDED = [
    *("ttl_core", "ttl_overflow", "ttl_disabled"),
    *("snapshot_restore", "full_snapshot_cleanup", "rocksdb_compaction"),
]


def by_backend(short):
    """Parametrize by backend and by how many traces one is replayed of: 1, or `short` on disk."""
    on_disk = ("rocksdb", "runs")
    shares = [
        pytest.param("hashmap", 1, id="hashmap"),
        *(pytest.param(each, short, id=f"one of {short}-{each}") for each in on_disk),
        *(pytest.param(each, 1, id=each, marks=pytest.mark.long) for each in on_disk),
    ]
    return pytest.mark.parametrize(("backend", "every"), shares)


def recorded(name, backend):
    """The traces of a backend; for runs those of heap."""
    of = "hashmap" if backend == "runs" else backend
    traces = [trace for trace in read_traces(name) if trace["backend"] == of and may_differ(trace)]
    return [trace | {"backend": backend} for trace in traces]


@pytest.mark.parametrize("name", RECORDED)
@by_backend(short=3)
def test_golden_state(name, backend, every, record_property):
    traces = recorded(name, backend)[::every]
    if not traces:
        pytest.skip(f"{name} has no traces of {backend}")
    steps = sum(map(replay, traces))
    record_property("traces", len(traces))
    record_property("steps", steps)
    print(f"{name} on {backend}: {len(traces)} traces, {steps} steps")


@pytest.mark.parametrize("name", RECORDED)
@by_backend(short=6)
def test_golden_state_in_event_time(name, backend, every, record_property):
    """The same by the watermark, which never runs back; the clock says something else."""
    traces = recorded(name, backend)[::every]
    if backend == "runs" and runs_items.CELL_BYTES:
        traces = [each for each in traces if not has_items(each)]  # they go through second tables
    if not traces:
        pytest.skip(f"{name} has no traces of {backend}")
    forward = [trace for trace in traces if runs_forward(trace["ops"])]
    steps = sum(replay(trace, time=TimeDomain.EVENT) for trace in forward)
    record_property("traces", len(forward))
    record_property("steps", steps)
    print(
        f"{name} by event time on {backend}: {len(forward)} of {len(traces)} traces, {steps} steps"
    )
    assert len(forward) > len(traces) // 2


@pytest.mark.parametrize("name", ["ttl_core", "ttl_disabled", "ttl_overflow"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_golden_state_on_the_other_backend(name, backend, record_property):
    """Results and timestamps are those of the backend that was recorded; sizes count others."""
    traces = [trace for trace in read_traces(name) if trace["backend"] != backend]
    steps = sum(replay(trace | {"backend": backend}, compare_sizes=False) for trace in traces)
    record_property("traces", len(traces))
    record_property("steps", steps)
    print(f"{name} of the other backend on {backend}: {len(traces)} traces, {steps} steps")


NO_CLEANUP = {"background": False, "incremental": None, "rocksdb_filter": None}


def live_keys(run):
    """Keys of a run without cleanup that have something that has not expired."""
    now, ttl = run.clock.now_ms(), run.trace["ttl_ms"]

    def lives(raw):
        if isinstance(raw, dict):
            raw = list(raw.values())
        stamps = raw if isinstance(raw[-1], list) else [raw]
        return any(stamp + ttl > now for _, stamp in stamps)

    return sum(lives(raw) for raw in run.dump().values())


@short_and_long("every", 6, 1)
@pytest.mark.parametrize("backend", ["hashmap", "runs"])
def test_golden_incremental_cleanup(backend, every, record_property):
    """The order in which expired entries go is that of our table, not of Flink's.

    So results are compared under NeverReturnExpired, and sizes lie between what lives and what
    there is without any cleanup, as the recordings' description asks.
    """
    traces, compared = recorded("ttl_incremental_heap", backend)[::every], 0
    for trace in traces:
        never = trace["visibility"] == "NeverReturnExpired"
        bare = trace | {"backend": "hashmap"} | {"cleanup": trace["cleanup"] | NO_CLEANUP}
        with ExitStack() as stack:
            run = Replay(trace, stack, compare_sizes=False, compare_raw=False)
            twin = Replay(bare, stack, compare_sizes=False, compare_raw=False)
            twin.compare_results = False
            for number, step in enumerate(trace["ops"]):
                where = f"{trace['trace']} step {number}: {step}"
                # Whether a map is empty is asked of what is stored, live or not.
                run.compare_results = never and step["op"] != "isEmpty"
                try:
                    run.step(step)
                    twin.step(step)
                    if number % STEPS_BETWEEN_SIZES == 0:
                        assert live_keys(twin) <= run.size() <= twin.size()
                except AssertionError as error:
                    raise AssertionError(f"{where}\n{error}") from error
                compared += run.compare_results
    record_property("traces", len(traces))
    record_property("steps", compared)
    print(f"ttl_incremental_heap on {backend}: {len(traces)} traces, {compared} steps compared")
