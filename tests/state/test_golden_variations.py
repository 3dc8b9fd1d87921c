"""The recordings' own operations in other orders, at other times, under other rules.

What was recorded on both of Flink's backends was the same on both, step by step, where no cleanup
ran. So it must be the same on ours, for variations that nobody recorded: clocks that run back,
times at both ends of the 64-bit range, other times to live, and batches of one key instead of
calls.
"""

import random
from contextlib import ExitStack

import pytest

from idlestate.retention.policy import FOREVER_MS
from tests.golden_files import read_traces
from tests.lengths import short_and_long
from tests.state.golden_state import BACKENDS, Replay, error_name, may_differ, raw_of, run_op

pytestmark = pytest.mark.golden

TTLS = [1, 2, 7, 100, 10_000, FOREVER_MS - 5, FOREVER_MS]
# At the very last millisecond the recorded backends differ (an entry without a value, an error).
SHIFTS = [0, 0, 0, -(10**6), FOREVER_MS - 2000, -FOREVER_MS]


def varied(trace, chance):
    """The trace with its operations shuffled, its times moved, and another rule."""
    shift = chance.choice(SHIFTS)
    ops = [dict(step) for step in trace["ops"]]
    if chance.random() < 0.5:
        chance.shuffle(ops)
    now = trace["ops"][0]["t"]
    for step in ops:
        now += chance.choice([0, 1, 1, 5, 60, -3, -40])
        step["t"] = max(min(now + shift, FOREVER_MS - 1), -FOREVER_MS - 1)
    return trace | {
        "ops": ops,
        "ttl_ms": chance.choice([trace["ttl_ms"], *TTLS]),
        "update_type": chance.choice(["OnCreateAndWrite", "OnReadAndWrite"]),
        "visibility": chance.choice(["NeverReturnExpired", "ReturnExpiredIfNotCleanedUp"]),
        "max_parallelism": chance.choice([1, 2, 128, 32_768]),
    }


def outcome(run, step):
    """What an operation gives and leaves."""
    run.border()
    run.clock.advance(step["t"] - run.clock.now_ms())
    (backend,), (state,) = run.backends, run.states
    backend.set_current_key(step["key"])
    result = error = None
    try:
        result = run_op(state, step["op"], step["args"])
    except Exception as raised:  # noqa: BLE001 - compared with the other's
        error = error_name(raised)
    return result, error, raw_of(state, step["key"]) or None


@short_and_long("count", 12, 40)
@pytest.mark.parametrize("in_columns", [True, False], ids=["columns", "dicts"])
def test_golden_variations_are_the_same_on_all_backends(in_columns, count, record_property):
    """So many variations of recorded traces."""
    chance, compared = random.Random(in_columns), 0
    traces = [trace for name in ("ttl_core", "ttl_overflow") for trace in read_traces(name)]
    for trace in filter(may_differ, chance.choices(traces, k=count)):
        variation = varied(trace, chance)
        with ExitStack() as stack:
            heap, *others = (Replay(variation | {"backend": name}, stack) for name in BACKENDS)
            for number, step in enumerate(variation["ops"]):
                if in_columns and number % 4 == 0:  # a batch would move everything there
                    heap.states[0].table.settle()
                expected = outcome(heap, step)
                found = [outcome(other, step) for other in others]
                about = (trace["trace"], number, step, variation["ttl_ms"])
                assert found == [expected] * len(others), about
                compared += 1
    record_property("steps", compared)
