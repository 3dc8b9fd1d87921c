"""The benchmarks measure what they say, and each kind of run works."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.quick_form import quick_form

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def small(bench: Callable[[str], ModuleType]) -> Callable[[str], Any]:
    """The recipe of the full runs, a hundredth of it."""
    recipes = bench("recipes")

    def make(draw: str) -> Any:
        return recipes.Recipe(draw=recipes.Draw(draw), rows=5_000, batches=16, ids=10_000)

    return make


@pytest.mark.parametrize("draw", ["uniform", "zipf"])
def test_input_is_the_same_again_and_each_batch_has_its_window(
    bench: Callable[[str], ModuleType], small: Callable[[str], Any], draw: str
) -> None:
    inputs, window_ms = bench("inputs"), bench("recipes").WINDOW_MS
    once, again = list(inputs.steady(small(draw))), list(inputs.steady(small(draw)))
    for at, ((ids, times), (same_ids, same_times)) in enumerate(zip(once, again, strict=True)):
        assert np.array_equal(ids, same_ids)
        assert np.array_equal(times, same_times)
        first = inputs.START_MS + at * window_ms
        assert first <= times.min()
        assert times.max() < first + window_ms


def test_zipf_keys_are_drawn_by_rank(
    bench: Callable[[str], ModuleType], small: Callable[[str], Any]
) -> None:
    ids = np.concatenate([ids for ids, _ in bench("inputs").steady(small("zipf"))])
    counts = np.bincount(ids)
    assert counts[0] / counts[1] == pytest.approx(2**1.1, rel=0.1)
    assert counts[0] / counts[9] == pytest.approx(10**1.1, rel=0.2)


@pytest.mark.parametrize("draw", ["uniform", "zipf"])
def test_churn_is_what_is_asked_for_and_nothing_due_is_nothing(
    bench: Callable[[str], ModuleType], small: Callable[[str], Any], draw: str, tmp_path: Path
) -> None:
    inputs, recipes = bench("inputs"), bench("recipes")
    recipe = small(draw)
    folder = inputs.make_input(recipe, tmp_path)
    windows = recipes.churn(recipe)
    found = inputs.churn_of(folder, windows)
    assert found["span_ms"] >= 4 * windows.max_ms
    assert found["end"] * 5 >= found["keys"]
    assert found["come_back"] * 20 >= found["keys"]
    quiet = inputs.churn_of(folder, recipes.nothing_due(recipe))
    assert quiet["end"] == quiet["come_back"] == 0


def test_input_is_made_once(
    bench: Callable[[str], ModuleType], small: Callable[[str], Any], tmp_path: Path
) -> None:
    inputs = bench("inputs")
    folder = inputs.make_input(small("uniform"), tmp_path)
    files = sorted((folder / "events").iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in files] == sorted(path.name for path in files)
    assert len(files) == 16 * inputs.FILES_PER_BATCH
    made = (folder / "facts.json").stat().st_mtime_ns
    assert inputs.make_input(small("uniform"), tmp_path) == folder
    assert (folder / "facts.json").stat().st_mtime_ns == made


def test_forgetting_cycles_leave_every_key_due_at_one_batch(
    bench: Callable[[str], ModuleType],
) -> None:
    inputs, recipes = bench("inputs"), bench("recipes")
    recipe = recipes.Recipe(draw=recipes.Draw.FORGET, rows=100, batches=3, ids=100)
    assert [len(ids) for ids, _ in inputs.forgetting(recipe)] == [100, 1, 1, 100, 1, 1, 100, 1]


def test_ratio_is_to_the_peer_of_the_same_suite_and_told_as_reached_or_missed(
    bench: Callable[[str], ModuleType],
) -> None:
    jobs, results, report = bench("jobs"), bench("results"), bench("report")
    wanted = {"uniform/groupBy/nothing-due": 2000, "uniform/retain-event/nothing-due": 200}
    wanted["uniform/retain-processing/nothing-due"] = 1000
    found = [
        results.result_of(job, [a_run(job, wanted[job.name])])
        for job in jobs.all_jobs(bench("scale").QUICK)
        if job.name in wanted
    ]
    assert [report.ratio(each, found) for each in found] == [1, 10, 2]
    text = report.write_report(found, {}, "a machine")
    by_name = {line.split("|")[1].strip(): line for line in text.splitlines() if "|" in line}
    assert "reached" in by_name["retain, event time"]
    assert "missed" in by_name["retain, processing time"]


def test_every_aim_is_judged_in_a_suite_that_runs_its_peer(
    bench: Callable[[str], ModuleType],
) -> None:
    aims, jobs, results, report = map(bench, ("aims_against_spark", "jobs", "results", "report"))
    everything = jobs.all_jobs(bench("scale").FULL)
    for suite, case in aims.AIMS:
        if suite in jobs.SPARSE_SUITES:  # these are compared with one another too
            continue
        found = [
            results.result_of(job, [a_run(job, 100)])
            for job in everything
            if job.suite == suite and job.case in (case, jobs.NOTHING_DUE)
        ]
        text = report.write_report(found, {}, "a machine")
        assert "missed" in text or "reached" in text, suite


def test_joins_tell_their_rows_and_whether_their_state_is_flat(
    bench: Callable[[str], ModuleType],
) -> None:
    jobs, results, report = bench("jobs"), bench("results"), bench("report")
    every = jobs.all_jobs(bench("scale").QUICK)
    (job,) = (each for each in every if each.name == "interval-join/join/within")
    run = a_run(job, 100)
    first = job.recipe.prelude + job.warm_up
    text = report.write_report([results.result_of(job, [run])], {}, "a machine")
    many, last = 2 * len(run["batches"]), len(run["batches"]) - 1
    assert f"{many} rows emitted; {40 + first} to {40 + last} bytes per live row" in text


@pytest.mark.parametrize("draw", ["uniform", "zipf", "forget", "sparse"])
def test_prelude_comes_before_and_changes_nothing_of_what_follows(
    bench: Callable[[str], ModuleType], small: Callable[[str], Any], draw: str
) -> None:
    inputs = bench("inputs")
    recipe = replace(small(draw), prelude=3)
    batches = list(inputs.prelude(recipe))
    assert [len(ids) for ids, _ in batches] == [bench("recipes").PRELUDE_ROWS] * 3
    assert all(times.max() < inputs.START_MS for _, times in batches)
    assert all(a.max() < b.min() for (_, a), (_, b) in pairwise(batches))
    counted = {"forget", "sparse"}
    assert all((ids == recipe.ids).all() == (draw in counted) for ids, _ in batches)


def test_sparse_input_writes_every_key_once_and_then_few_different_ones(
    bench: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, recipes = bench("inputs"), bench("recipes")
    for module in (inputs, recipes):
        monkeypatch.setattr(module, "LOAD_ROWS", 400)
    recipe = recipes.Recipe(draw=recipes.Draw.SPARSE, rows=100, batches=3, ids=1000)
    assert recipe.loads == 3
    batches = [ids.tolist() for ids, _ in inputs.sparse(recipe)]
    assert [len(ids) for ids in batches] == [400, 400, 200, 100, 100, 100]
    assert [key for ids in batches[:3] for key in ids] == list(range(1000))
    assert all(len(set(ids)) == 100 for ids in batches[3:])
    assert batches[3] != batches[4]


def test_sparse_batches_are_compared_over_sizes_and_with_the_peer(
    bench: Callable[[str], ModuleType],
) -> None:
    jobs, results, report = bench("jobs"), bench("results"), bench("report")
    wanted = {
        "sparse-small/retain-event/nothing-due": (100, {"stored_rows": 14}),
        "sparse-middle/retain-event/nothing-due": (110, {"stored_rows": 13}),
        "sparse-middle/ttl/nothing-due": (540, None),
        "sparse-large/retain-event/nothing-due": (140, {"stored_rows": 16}),
    }
    found = []
    for job in (job for job in jobs.all_jobs(bench("scale").QUICK) if job.name in wanted):
        batch_ms, changed = wanted[job.name]
        run = a_run(job, batch_ms, loads=job.recipe.loads)
        if changed:
            run |= {"shards": [{**SHARD, **changed}], "state_digest": 1, "runs_on_disk": 99}
        found.append(results.result_of(job, [run]))
    text = report.write_report(found, {}, "a machine")
    assert "time of a batch from 2,000 to 20,000 ids: 1.40 times (at most 1.5): reached" in text
    assert (
        "on 8,000 ids 4.9 times as fast as transformWithState (Row), TTL (aim: 5): missed" in text
    )
    rows = [line for line in text.splitlines() if "at most 1.5 |" in line]
    assert ["missed" in row for row in rows] == [False, False, True]


def test_two_executors_are_held_to_equal_shares_and_little_more_processor_time(
    bench: Callable[[str], ModuleType],
) -> None:
    jobs, results, report = bench("jobs"), bench("results"), bench("report")
    found = []
    for job in (job for job in jobs.all_jobs(bench("scale").QUICK) if job.suite == "executors"):
        count = int(job.case[0])
        run = a_run(job, 100) | {
            "shards": [SHARD],
            "state_digest": 7,
            "executors": [{"rows": 100 + 5 * at, "bytes": 100 + 20 * at} for at in range(count)],
        }
        for batch in run["batches"]:
            batch["jvm_ms"] = 49 if count == 1 else 57
        found.append(results.result_of(job, [run]))
    text = report.write_report(found, {}, "a machine")
    assert "processor time of a row on two: 1.16 times (at most 1.18): reached" in text
    assert "final states and expire rows are the same" in text
    assert "rows of state differ by 5.0% (at most 10%): reached" in text
    assert "bytes of state differ by 20.0% (at most 10%): missed" in text


SHARD = {
    "live_keys": 10,
    "stored_rows": 10,
    "state_bytes": 50,
    "remembered_bytes": 0,
    "returning_keys": 0,
    "late": 0,
}


def test_no_row_is_looked_into_where_no_key_can_end(bench: Callable[[str], ModuleType]) -> None:
    jobs = bench("jobs").all_jobs(bench("scale").FULL)
    steady = [job for job in jobs if job.windows and job.windows.max_ms > job.recipe.span_ms > 0]
    assert "zipf/retain-event/nothing-due" in [job.name for job in steady]
    assert not [job.name for job in steady if job.counts_expired]


def a_run(job: Any, batch_ms: int, loads: int = 0) -> dict[str, Any]:
    """A run as `run_one.py` reports it; its warm-up batches are slow and must not count."""
    batches = [
        {
            "batch_id": at,
            "began": f"2025-03-03T00:{at // 60:02d}:{at % 60:02d}.000Z",
            "rows": job.recipe.rows,
            "ms": batch_ms if at >= job.recipe.prelude + job.warm_up else 60_000,
            "jvm_ms": 1,
            "python_ms": 1,
            "expire_rows": 0,
            "written_bytes": 1,
            "state_rows": 1,
            "sink_rows": 2,
            "bytes_per_live_row": 40 + at,
        }
        for at in range(job.recipe.prelude + loads + job.recipe.batches)
    ]
    memory = {"total": 0, "jvm": 0, "python": 0}
    return {"batches": batches, "shards": [], "state": [], "memory": memory}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc on this system")
def test_usage_sees_memory_and_processor_time_of_a_process(
    bench: Callable[[str], ModuleType],
) -> None:
    usage = bench("usage").Usage()
    program = "data = bytearray(50_000_000); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        usage.sample(child.pid)
        child.communicate(b"\n")
    assert usage.total == usage.python > 50_000_000
    assert usage.jvm == 0


def test_files_in_a_checkpoint_are_counted_for_the_batch_that_wrote_them(
    bench: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    for name, size in {
        "offsets/3": 10,
        "commits/3": 20,
        "idlestate/clicks/runs/0/3-open-abc.arrow": 1000,
        "idlestate/clicks/layout.json": 7,
        "state/0/1/4_abc.changelog": 300,
        "state/0/1/.4_abc.changelog.crc": 4,
        "state/0/_metadata/v2/0": 5,
        "metadata": 6,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    assert bench("written").written_per_batch(tmp_path) == {0: 5, 3: 1334}


def test_micro_benchmark_runs() -> None:
    done = run("micro.py", "--quick", "--case", "churn", "--in-order")
    assert "pack, both tasks" in done.stdout
    assert "shard_batch.py" in done.stdout


@pytest.mark.long
@pytest.mark.spark
@quick_form
def test_quick_form_measures_each_kind_of_run(tmp_path: Path) -> None:
    names = ("uniform/groupBy", "uniform/retain-event/churn", "small-uniform/ttl")
    only = [word for name in (*names, "forget/retain-event") for word in ("--only", name)]
    done = run("main.py", "--quick", *only, "--out", str(tmp_path))
    assert (tmp_path / "report.md").read_text() in done.stdout
    facts = {each["job"]["name"]: each["runs"][0] for each in json.loads(read(tmp_path))}
    assert len(facts) == 4

    churned = facts["uniform/retain-event/churn"]
    expired = sum(shard["expired_idle"] for shard in churned["shards"])
    assert expired > 0
    assert sum(batch["expire_rows"] for batch in churned["batches"]) == expired
    assert sum(shard["late"] for shard in churned["shards"]) == 0

    forgot = facts["forget/retain-event/forget"]["batches"]
    assert [b["rows"] for b in forgot if b["expire_rows"] >= 20_000] == [1, 0]
    assert "batch without data" in done.stdout


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / program), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def read(out: Path) -> str:
    return (out / "results.json").read_text()


def test_sparse_batches_are_measured(bench: Callable[[str], ModuleType]) -> None:
    line = bench("sparse").measure(2_000, 100, 3, None)
    keys, touched, *figures = line.replace(",", "").split()
    assert (int(keys), int(touched)) == (2_000, 100)
    assert len(figures) == 9
    assert all(float(figure) >= 0 for figure in figures)
