"""Input for the crash suite: a few small files, seeded, and the configuration that reads them.

One file is one batch. Over the files keys come, pause for longer than the idle window, come back
and go; some rows are late, malformed or carry an unusable time. Now and then many guests come at
once: beside them a batch touches little, so that state is several runs until the guests are gone.
"""

import json
import os
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.reference import Record, Rule

FILES = 16
ROWS = 120
KEYS = 90
GUESTS = 1200
GUESTS_EVERY = 4
STEP_MS = 20 * 60_000
"""Event time that a file spans."""
DELAY_MS = 5 * 60_000
FIRST_MS = 1_741_000_000_000
FIRST_MODIFIED_S = 1_600_000_000

AGGREGATES = {
    "n": "count",
    "total": "sum(amount)",
    "highest": "max(amount)",
    "newest": "last(amount)",
    "seen": "max(event_time)",
}
EVENT_RULE = Rule(idle_min_ms=30 * 60_000, idle_max_ms=45 * 60_000, remember_ms=2**63 - 1)
# So short that keys end between the batches and while a killed query is away.
PROCESSING_RULE = Rule(idle_min_ms=1_500, idle_max_ms=2_500, remember_ms=2**63 - 1)

_CONFIG = """\
version: 1
policies:
  event: {idle: {min: 30m, max: 45m}, remember: forever}
  processing: {idle: {min: 1500ms, max: 2500ms}, min_gap: 1s, time: processing, remember: forever}
pipelines:
  crash:
    source:
      path: %(source)s
      format: json
      schema: {event_time: timestamp, user: string, amount: bigint}
      files_per_batch: 1
    %(time)s
    key: [user]
    aggregates: {%(aggregates)s}
    policy: %(policy)s
    sinks: {results: %(out)s/results, expired: %(out)s/expired, rejects: %(out)s/rejects}
    backend: %(backend)s
    checkpoint: %(out)s/checkpoint
    state_partitions: 2
    shards: 4
    metrics: {port: 0}
"""
UID = "crash"


@dataclass
class CrashInput:
    """The files of one seed, and the same rows as records for the reference."""

    folder: Path
    batches: list[list[Record]] = field(default_factory=list)
    malformed: int = 0

    @property
    def last_batch(self) -> int:
        return len(self.batches) - 1


def make_input(folder: Path, seed: int, files: int = FILES) -> CrashInput:
    """Write the files; equal seeds give equal bytes."""
    draw = random.Random(seed)
    folder.mkdir(parents=True)
    made = CrashInput(folder)
    for number in range(files):
        lines, records = [], []
        # A window over the keys that moves on and returns: a key is away for four files.
        active = [f"user-{(number // 2 % 3) * 30 + at:03}" for at in range(30)]
        active += [f"user-{at:03}" for at in range(0, KEYS, 7)]
        for _ in range(ROWS):
            t_ms = FIRST_MS + number * STEP_MS + draw.randrange(STEP_MS)
            record = _row(draw, draw.choice(active), t_ms)
            records.append(record)
            lines.append(_line(record))
        for guest in range(GUESTS if number % GUESTS_EVERY == 0 else 0):
            t_ms = FIRST_MS + number * STEP_MS + draw.randrange(STEP_MS)
            record = _row(draw, f"guest-{number}-{guest}", t_ms)
            records.append(record)
            lines.append(_line(record))
        for t_ms in _odd_times(number):
            record = _row(draw, draw.choice(active), t_ms)
            records.append(record)
            lines.append(_line(record))
        lines.insert(draw.randrange(len(lines)), '{"event_time": "2025-03-03T1')
        made.malformed += 1
        _write(folder / f"{number:04}.json", lines, FIRST_MODIFIED_S + number)
        made.batches.append(records)
    return made


def write_config(place: Path, source: Path, policy: str, backend: str = "spark") -> Path:
    """The configuration of a run whose checkpoint and sinks lie in `place`."""
    place.mkdir(parents=True)
    path = place / "crash.yaml"
    aggregates = ", ".join(f"{name}: {text}" for name, text in AGGREGATES.items())
    out = place / "out"
    time = "event_time: event_time\n    delay: 5m" if policy == "event" else ""
    facts: dict[str, Any] = {"source": source, "policy": policy, "out": out, "time": time}
    facts["backend"] = backend
    path.write_text(_CONFIG % {**facts, "aggregates": aggregates})
    return path


def _row(draw: random.Random, user: str, t_ms: int | None) -> Record:
    amount = draw.randrange(1000)
    return Record((user,), t_ms, {"amount": amount, "event_time": t_ms})


def _odd_times(number: int) -> list[int | None]:
    """No time, far ahead, ancient; and from the third file on too late."""
    odd: list[int | None] = [None, 4_102_444_800_000, 1_000]
    if number >= 2:
        odd += [FIRST_MS + (number - 2) * STEP_MS + 17] * 2
    return odd


def _line(record: Record) -> str:
    return json.dumps(
        {
            "event_time": None if record.t_ms is None else _iso(record.t_ms),
            "user": record.key[0],
            "amount": record.values["amount"],
        }
    )


def _iso(t_ms: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=t_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write(path: Path, lines: list[str], modified_s: int) -> None:
    path.write_text("\n".join(lines) + "\n")
    # Spark takes files in the order of these times.
    os.utime(path, (modified_s, modified_s))
