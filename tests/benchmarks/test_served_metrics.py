"""What metrics cost is measured batch by batch."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.benchmarks.quick_form import quick_form

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_a_batch_with_metrics_is_compared_with_the_same_batch_without(
    bench: Callable[[str], ModuleType],
) -> None:
    served_metrics = bench("served_metrics")
    usage = served_metrics.ServingUsage()
    usage.samples = [(at, 100.0 * at, 50.0 * at) for at in range(100)]
    usage.serving = [(at, 10.0 * at) for at in range(100)]
    begins = ("00:00:01", "00:00:09", "00:00:12", "00:00:21")
    batches = [
        SimpleNamespace(
            batchId=at,
            timestamp=f"1970-01-01T{begin}.000Z",
            durationMs={"triggerExecution": 2_000},
        )
        for at, begin in enumerate(begins)
    ]

    def taken(begin_served: bool) -> dict[bool, dict[int, tuple[float, float]]]:
        turns = [
            served_metrics.Turn(begin_served == (at % 2 == 0), at * 10.0, at * 10.0 + 10.0)
            for at in range(3)
        ]
        found: dict[bool, dict[int, tuple[float, float]]] = served_metrics.taken_ms(
            batches, turns, usage
        )
        return found

    # The second batch saw both.
    spent = (300.0, 20.0)
    assert taken(False) == {False: {0: spent, 3: spent}, True: {2: spent}}
    assert served_metrics.pairs(taken(False), taken(True)) == [(spent, spent)] * 3
    assert served_metrics.pairs(taken(False), taken(False)) == []


def test_what_metrics_add_is_held_against_the_time_of_all_processes(
    bench: Callable[[str], ModuleType],
) -> None:
    served_metrics = bench("served_metrics")
    # Copies are written in every batch: 990 ms are left without them. The noise of all processes
    # does not count.
    found = [((1_000.0, 20.0), (1_500.0, 25.0)), ((1_000.0, 22.0), (700.0, 27.0))]
    assert served_metrics.times_without(found, 10.0) == (990 + 5 + 10) / 990


@pytest.mark.long
@pytest.mark.spark
@quick_form
def test_metrics_are_measured_against_the_same_query_without() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "served_metrics.py"), "--quick"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"of [1-9]\d* batches, each in two runs: \d+ ms without metrics", done.stdout)
    assert re.search(r"copies of the records: [0-9.]+ ms of each", done.stdout)
    assert re.search(
        r"copies, times without: [0-9.]+, standard error [0-9.]+ +aim 1.01", done.stdout
    )
