"""A soak: the query in a process of its own, watched from outside, judged, drawn."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from idlestate.timers.clock import SystemClock
from tests.quick_jvm import JAVA_OPTIONS
from tests.soak.bounds import LONGEST, Bounds
from tests.soak.sampling import Sample, sample
from tests.soak.trend import Trend, trend
from tests.soak.visits import START_MS, STEP_MS

JOB = Path(__file__).with_name("job.py")
SPOILT = 0.002
"""One batch and this share of all may take any time: the disk or the machine was busy elsewhere.
What the query itself makes long, such as a merge, comes again and again."""
LEFT_ALONE = 0.2
"""Batches say nothing in whose time other programs took more than this share of the machine."""
FOR_EVER = 10**9
WARM_UP = 0.25
"""The share of a run in which the JVM gets going and the state fills: its batches do not count."""


class SoakError(Exception):
    """The query failed or never got going; its log says why."""


@dataclass(frozen=True)
class Soak:
    """What was seen of a run."""

    samples: list[Sample]
    batches: list[dict[str, Any]]
    bounds: Bounds
    operator: str = "retain"

    @cached_property
    def began_s(self) -> float:
        return self.samples[0].at_s

    @cached_property
    def batch_times(self) -> list[float]:
        return [datetime.fromisoformat(each["began"]).timestamp() for each in self.batches]

    @cached_property
    def trends(self) -> list[Trend]:
        """One for each figure that must stay flat."""
        at = [each.at_s for each in self.samples]
        sizes, memory = self.bounds.sizes, self.bounds.memory

        def batch(name: str) -> list[float]:
            return [each[name] for each in self.batches]

        def seen(name: str) -> list[float]:
            return [getattr(each, name) for each in self.samples]

        per_live = [each["state_bytes"] / max(each["live_keys"], 1) for each in self.batches]
        if self.operator == "join":
            of_state = [trend("live rows", self.batch_times, batch("live_keys"), sizes)]
        else:
            of_state = [
                trend("live keys", self.batch_times, batch("live_keys"), sizes),
                trend("remembered keys", self.batch_times, batch("remembered_keys"), sizes),
            ]
        return [
            *of_state,
            trend(f"bytes per {self.unit}", self.batch_times, per_live, sizes),
            trend("disk, bytes", at, seen("disk_bytes"), sizes),
            trend("files", at, seen("files"), sizes),
            trend("Python workers, bytes", at, seen("workers"), memory),
            trend("driver's JVM, bytes", at, seen("jvm"), memory),
            trend("its heap, bytes", self.batch_times, batch("heap"), memory),
            trend("driver's Python, bytes", at, seen("driver"), memory),
            trend("time of a batch, ms", self.batch_times, batch("ms"), self.bounds.time),
        ]

    @cached_property
    def counted(self) -> list[dict[str, Any]]:
        """The batches behind the warm-up."""
        return self.batches[int(len(self.batches) * WARM_UP) :]

    @cached_property
    def quiet(self) -> list[dict[str, Any]]:
        """Of these the ones that had the machine for themselves."""
        at, own, busy = np.array([[s.at_s, s.own_s, s.busy_s] for s in self.samples]).T
        share = np.diff(busy - own) / np.diff(at) / (os.cpu_count() or 1)
        first = len(self.batches) - len(self.counted)
        found = []
        for batch, began_s in zip(self.counted, self.batch_times[first:], strict=True):
            begin, end = np.searchsorted(at, [began_s, began_s + batch["ms"] / 1000])
            if (share[max(begin - 1, 0) : end] <= LEFT_ALONE).all():
                found.append(batch)
        return found

    @property
    def unit(self) -> str:
        """What a life is called."""
        return "live row" if self.operator == "join" else "live key"

    @property
    def events(self) -> str:
        """What the query reads."""
        return "orders and payments" if self.operator == "join" else "visits"

    @property
    def ended(self) -> int:
        """Lives that ended."""
        rules = ("expired_idle", "expired_ttl", "expired_lifetime")
        return sum(self.batches[-1][rule] for rule in rules)

    @property
    def median_ms(self) -> float:
        return median(each["ms"] for each in self.counted)

    @property
    def longest(self) -> dict[str, Any]:
        """The longest of the batches that had the machine for themselves, else of all; without
        those that may be spoilt.
        """
        ordered = sorted(self.quiet or self.counted, key=lambda each: each["ms"], reverse=True)
        return ordered[min(self.spoilt, len(ordered) - 1)]

    @property
    def spoilt(self) -> int:
        """How many batches may take any time."""
        return 1 + int(SPOILT * len(self.quiet or self.counted))

    @property
    def longest_times(self) -> float:
        """The longest batch, in medians."""
        return self.longest["ms"] / self.median_ms

    @property
    def is_good(self) -> bool:
        flat = all(each.is_flat for each in self.trends)
        return flat and self.longest_times <= self.bounds.longest

    def __str__(self) -> str:
        last = self.batches[-1]
        days = len(self.batches) * STEP_MS / 86_400_000
        begin = datetime.fromtimestamp(START_MS / 1000, UTC)
        merges = [each["merged"] for each in self.counted]
        verdict = "good" if self.longest_times <= self.bounds.longest else "TOO LONG"
        calm = [each["ms"] for each in self.counted if not each["merged"]]
        heading = (
            f"{len(self.batches):,} batches, {last['input']:,} events over {days:,.1f} days from "
            f"{begin:%Y} on, {last['created']:,} lives begun, {self.ended:,} ended, "
            f"{last['returning_keys']:,} returning keys"
        )
        batches = (
            f"batches: median {self.median_ms:,.0f} ms, longest but for {self.spoilt} "
            f"{self.longest['ms']:,} ms (batch "
            f"{self.longest['batch']}, {self.longest['merged']} of {last['shards']} shards merged "
            f"in it), {self.longest_times:.2f} times (at most {self.bounds.longest:g}): {verdict}"
        )
        merging = (
            f"merges: {sum(merges)} of shards, in {sum(map(bool, merges))} of {len(merges)} "
            f"batches, at most {max(merges)} in one; median of batches without one "
            f"{median(calm) if calm else 0:,.0f} ms"
        )
        over = [each for each in self.counted if each["ms"] > LONGEST * self.median_ms]
        alone = (
            f"{len(self.quiet)} of {len(self.counted)} batches had the machine for themselves, "
            f"and that one is among them; {len(over)} of all took more than {LONGEST:g} times "
            f"the median"
        )
        return "\n".join([heading, *map(str, self.trends), batches, alone, merging])


def carry_out(
    folder: Path,
    operator: str,
    pace: str,
    bounds: Bounds,
    *,
    seconds: float = FOR_EVER,
    batches: int = FOR_EVER,
    every_s: float,
) -> Soak:
    """Run the query and look at it every so often; `samples.csv` is written on the way.

    Args:
        folder: a new one.
        operator: `retain` or `join`.
        pace: of the stream, by name.
        bounds: what is called flat.
        seconds: it goes on for so long after its first batch,
        batches: or until it has done so many.
        every_s: seconds between two looks.

    Raises:
        SoakError: the query failed.
    """
    folder.mkdir(parents=True)
    clock = SystemClock()
    command = [sys.executable, str(JOB), operator, pace, str(seconds), str(batches), str(folder)]
    # Its JVM is a long-lived one, with options of its own.
    environment = {name: value for name, value in os.environ.items() if name != JAVA_OPTIONS}
    with (
        (folder / "job.log").open("w") as log,
        (folder / "samples.csv").open("w", newline="") as lines,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment) as child,
    ):
        rows = csv.DictWriter(lines, [field.name for field in fields(Sample)])
        rows.writeheader()
        try:
            while child.poll() is None:
                seen = sample(clock.now_ms() / 1000, child.pid, folder / "checkpoint")
                if seen.disk_bytes and seen.worker_count:
                    rows.writerow(asdict(seen))
                    lines.flush()
                wait(child, every_s)
        except BaseException:
            child.terminate()
            raise
    if child.returncode:
        tail = (folder / "job.log").read_text(errors="replace")[-3000:]
        raise SoakError(f"the query ended with {child.returncode}:\n{tail}")
    return Soak(read_samples(folder), read_batches(folder), bounds, operator)


def wait(child: "subprocess.Popen[bytes]", seconds: float) -> None:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def read_samples(folder: Path) -> list[Sample]:
    """The looks, but for the last one: it may have come while the query was being stopped."""
    with (folder / "samples.csv").open() as lines:
        return [
            Sample(**{name: float(value) for name, value in row.items()})  # type: ignore[arg-type]
            for row in csv.DictReader(lines)
        ][:-1]


def read_batches(folder: Path) -> list[dict[str, Any]]:
    """The batches that had data and reported every shard."""
    lines = (folder / "batches.jsonl").read_text().splitlines()
    return [each for each in map(json.loads, lines) if each["rows"] and each["shards"]]


def check_worth(soak: Soak, batches: int) -> None:
    """The run has to hold what state could grow by.

    Raises:
        SoakError: it was too short.
    """
    last = soak.batches[-1]
    returning = last["returning_keys"]
    if len(soak.batches) < batches or not (returning or soak.operator == "join"):
        raise SoakError(f"only {len(soak.batches)} batches, {returning} returning keys")
    assert last["created"] - soak.ended == last["live_keys"]
