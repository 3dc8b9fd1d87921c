"""Keyed state against what Apache Flink's own classes did (tests/golden/README.md)."""

from contextlib import ExitStack

import pytest

from tests.backends.golden_state import Replay, replay
from tests.golden_files import read_traces

pytestmark = pytest.mark.golden


@pytest.mark.parametrize(
    "name",
    [
        *("ttl_core", "ttl_disabled", "ttl_overflow"),
        *("snapshot_restore", "full_snapshot_cleanup", "rocksdb_compaction"),
    ],
)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_golden_state(name, backend, record_property):
    traces = [trace for trace in read_traces(name) if trace["backend"] == backend]
    if not traces:
        pytest.skip(f"{name} has no traces of {backend}")
    steps = sum(map(replay, traces))
    record_property("traces", len(traces))
    record_property("steps", steps)
    print(f"{name} on {backend}: {len(traces)} traces, {steps} steps")


@pytest.mark.parametrize("name", ["ttl_core", "ttl_disabled", "ttl_overflow"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_golden_state_on_the_other_backend(name, backend, record_property):
    """Results and timestamps are those of the backend that was recorded; sizes count others."""
    traces = [trace for trace in read_traces(name) if trace["backend"] != backend]
    steps = sum(replay(trace | {"backend": backend}, compare_sizes=False) for trace in traces)
    record_property("traces", len(traces))
    record_property("steps", steps)
    print(f"{name} of the other backend on {backend}: {len(traces)} traces, {steps} steps")


def test_golden_incremental_cleanup(record_property):
    """The order in which expired entries go is that of our table, not of Flink's.

    So results are compared under NeverReturnExpired, sizes lie between what lives and what Flink
    has without any cleanup, and where every step covers the whole table all is compared.
    """
    traces, steps = read_traces("ttl_incremental_heap"), 0
    for trace in traces:
        incremental = trace["cleanup"]["incremental"]
        exact = bool(incremental) and incremental[0] >= 100_000
        never = trace["visibility"] == "NeverReturnExpired"
        with ExitStack() as stack:
            run = Replay(trace, stack, compare_sizes=exact, compare_raw=exact)
            for number, step in enumerate(trace["ops"]):
                where = f"{trace['trace']} step {number}: {step}"
                if not (exact or never):
                    step = {name: step[name] for name in ("t", "key", "op", "args")}
                    run.clock.advance(step["t"] - run.clock.now_ms())
                    run.backends[0].set_current_key(step["key"])
                    continue
                try:
                    run.step(step)
                except AssertionError as error:
                    raise AssertionError(f"{where}\n{error}") from error
                steps += 1
    record_property("traces", len(traces))
    record_property("steps", steps)
    print(f"ttl_incremental_heap: {len(traces)} traces, {steps} steps compared")
