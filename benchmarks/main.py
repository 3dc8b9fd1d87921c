"""`make bench`: retain beside Spark's own operators, and the sidecar beside Redis, each run in a
process of its own.

Runs are interleaved: a round runs every contestant of a suite once, then comes the next round.
The report goes to the terminal and to `build/bench/report.md`, all figures to
`build/bench/results.json`.

    main.py                       everything (about four hours)
    main.py --rounds 1            everything once (three hours)
    main.py --quick               a small form of each kind of run, to see that they work
    main.py --only uniform/retain --only forget
                                  runs whose name begins so; --list shows the names
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inputs import churn_of, make_input
from jobs import CHURN, NOTHING_DUE, PROCESSING_CHURN_BATCHES, Job, all_jobs
from process import HERE, RunFailedError, run_process
from recipes import Windows
from report import write_report
from results import later_batches, result_of
from scale import FULL, QUICK, QUICK_NAMES
from session import CORES, HEAP

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {
    "table/sparse": (
        "sparse.py",
        *("--keys", "2000", "20000", "--distinct", "500", "--batches", "4"),
    ),
    "table/dense": ("dense.py", "--quick"),
    "advise": ("advise.py", "--quick"),
    "metrics/scrape": ("scrape.py", "--quick"),
    "metrics/served": ("served_metrics.py", "--quick"),
    "sidecar": (
        "sidecar.py",
        *("--backend", "heap", "--keys", "3000", "--start-keys", "3000", "--calls", "1"),
        *("--rounds", "1", "--sweeps", "1", "--scrape-turns", "1", "--scrape-calls", "20"),
    ),
}
"""What measures in a program of its own, and its options in the quick form."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for; 1 when a run failed."""
    asked = _parser().parse_args(argv)
    scale = QUICK if asked.quick else FULL
    names = asked.only or (QUICK_NAMES if asked.quick else ("",))
    jobs = [job for job in all_jobs(scale) if job.name.startswith(tuple(names))]
    programs = [name for name in PROGRAMS if name.startswith(tuple(names))]
    if asked.list or not jobs + programs:
        print("\n".join([*(job.name for job in all_jobs(scale)), *PROGRAMS]))
        return 0 if asked.list else 2
    if asked.rounds:
        jobs = [replace(job, rounds=asked.rounds) for job in jobs]
    out = Path(asked.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        done = _run_all(jobs, out)
        alone = [_run_program(name, quick=asked.quick) for name in programs]
    except RunFailedError as error:
        print(error, file=sys.stderr)
        return 1
    drawn = {
        job.suite: churn_of(make_input(job.recipe, out / "input"), job.windows)
        for job, _ in done
        if job.case == CHURN and job.contestant.name == "retain-event" and job.windows
    }
    results = [result_of(job, runs) for job, runs in done]
    text = "\n".join([write_report(results, drawn, _machine()), *alone])
    (out / "report.md").write_text(text)
    facts = [{"job": _facts(job), "runs": runs} for job, runs in done]
    (out / "results.json").write_text(json.dumps(facts, indent=1))
    print(f"\n{text}\n{out / 'report.md'}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small inputs, one of each kind")
    parser.add_argument("--only", action="append", metavar="NAME", help="runs named like this")
    parser.add_argument("--rounds", type=int, help="how often each run is repeated")
    parser.add_argument("--list", action="store_true", help="print the names of runs and stop")
    parser.add_argument("--out", default=ROOT / "build" / "bench", help="where results go")
    return parser


def _run_all(jobs: Sequence[Job], out: Path) -> list[tuple[Job, list[dict[str, Any]]]]:
    """Each job with its runs, suite after suite, in rounds."""
    runs: dict[str, list[dict[str, Any]]] = {job.name: [] for job in jobs}
    settled = {job.name: job for job in jobs}
    for suite in dict.fromkeys(job.suite for job in jobs):
        mine = [job for job in jobs if job.suite == suite]
        for at in range(max(job.rounds for job in mine)):
            for job in (job for job in mine if at < job.rounds):
                settled[job.name] = _with_windows(settled[job.name], settled, runs)
                runs[job.name].append(_run(settled[job.name], at, out))
    return [(settled[name], found) for name, found in runs.items()]


def _with_windows(job: Job, jobs: dict[str, Job], runs: dict[str, list[dict[str, Any]]]) -> Job:
    """The job with windows measured in batches, where its windows are not given."""
    if job.windows:
        return job
    steady = f"{job.suite}/{job.contestant.name}/{NOTHING_DUE}"
    if not runs.get(steady):
        raise RunFailedError(f"{job.name} takes its windows from {steady}: run that too")
    batch_ms = statistics.median(
        batch["ms"] for run in runs[steady] for batch in later_batches(jobs[steady], run)
    )
    max_ms = int(batch_ms * PROCESSING_CHURN_BATCHES)
    return replace(job, windows=Windows(min_ms=max_ms * 2 // 3, max_ms=max_ms))


def _run(job: Job, at: int, out: Path) -> dict[str, Any]:
    folder = make_input(job.recipe, out / "input")
    place = out / "runs" / job.name.replace("/", "-")
    scratch = place / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    assert job.windows is not None
    asked = {
        "contestant": job.contestant.name,
        "input": str(folder),
        "scratch": str(scratch),
        "windows": asdict(job.windows),
        "master": job.master,
        "counts_expired": job.counts_expired,
    }
    began = time.monotonic()
    try:
        run = run_process(asked, place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    later = later_batches(job, run)
    rate = statistics.median(b["rows"] * 1000 / b["ms"] for b in later) if later else 0
    print(
        f"round {at + 1}  {job.name:<36} {rate:>12,.0f} rows/s  "
        f"({time.monotonic() - began:.0f} s with start-up)",
        flush=True,
    )
    return run


def _run_program(name: str, *, quick: bool) -> str:
    """A program of its own: what it printed, as a section of the report."""
    file, *options = PROGRAMS[name]
    command = [sys.executable, str(HERE / file), *(options if quick else ())]
    done = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RunFailedError(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    print(f"{name}\n{done.stdout}", flush=True)
    return f"## {name}\n\n```text\n{done.stdout}```\n"


def _facts(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "recipe": asdict(job.recipe),
        "windows": asdict(job.windows) if job.windows else None,
        "warm_up": job.warm_up,
    }


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores ({CORES} used), heap {HEAP}, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}, PySpark {version('pyspark')}, "
        f"pyarrow {version('pyarrow')}, numpy {version('numpy')}."
    )


if __name__ == "__main__":
    sys.exit(main())
