"""What came of a history, and how it differs from what should have: rows lost, rows doubled."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.crash.checkpoint_view import Planned
from tests.crash.crash_input import AGGREGATES, DELAY_MS, UID, CrashInput
from tests.reference import Record, Row, Rule, State
from tests.reference_pipeline import Played, play

Fact = tuple[Any, ...]
Rows = Iterable[tuple[dict[str, Any], int]]
"""Rows of a sink with their batch."""
ROW_TIMES = ("created_at", "last_access", "expired_at")
LIFE = (
    *("created_at", "written_at", "read_at", "armed_at"),
    *("last_access", "cleanup_at", "deadline", "reason"),
)
FIRST_ACCESS = 1 + len(AGGREGATES)
BATCH_ID = FIRST_ACCESS + 4
"""Where these stand in the facts of change rows."""
START_S, READING_S = 300, 60
"""How long a reader and each of its checkpoints may take on a machine with other work."""
READER = Path(__file__).with_name("state_reader.py")


@dataclass
class Outcome:
    """Everything a run left, as multisets of plain values."""

    updates: Counter[Fact]
    """Update rows with their batch."""
    expired: Counter[Fact]
    rejects: Counter[Fact]
    lives: Counter[Fact]
    """Open lives as `read_state` shows them."""
    counts: dict[str, int]

    def last_updates(self) -> Counter[Fact]:
        """Of each life without an end the newest update, without its batch."""
        ended = {_life(fact) for fact in self.expired}
        newest: dict[Fact, Fact] = {}
        for fact in sorted(self.updates, key=_batch_id):
            newest[_life(fact)] = fact[:BATCH_ID]
        return Counter(fact for life, fact in newest.items() if life not in ended)

    def updates_per_batch(self) -> Counter[Fact]:
        """How often a batch updates a life: once, if nothing is doubled."""
        return Counter((*_life(fact), _batch_id(fact)) for fact in self.updates.elements())


@dataclass(frozen=True)
class Difference:
    """Facts of a kind that are missing, and facts that are there too often or should not be."""

    kind: str
    lost: Counter[Fact]
    doubled: Counter[Fact]

    @property
    def is_none(self) -> bool:
        return not self.lost and not self.doubled

    def __str__(self) -> str:
        shown = [f"  lost    {fact}" for fact in list(self.lost)[:3]]
        shown += [f"  doubled {fact}" for fact in list(self.doubled)[:3]]
        head = f"{self.kind}: lost {self.lost.total()}, doubled {self.doubled.total()}"
        return "\n".join([head, *shown])


def compare(kind: str, wanted: Counter[Fact], found: Counter[Fact]) -> Difference:
    return Difference(kind, wanted - found, found - wanted)


def facts(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> Counter[Fact]:
    return Counter(tuple(row[name] for name in names) for row in rows)


def compare_counts(wanted: Mapping[str, int], found: Mapping[str, int]) -> Difference:
    return compare(
        "counts",
        Counter((name, number) for name, number in wanted.items()),
        Counter((name, found.get(name)) for name in wanted),
    )


def differences(wanted: Outcome, found: Outcome) -> list[Difference]:
    """An undisturbed run and another one: every kind of fact is the same, batch by batch."""
    every = [
        compare("results", wanted.updates, found.updates),
        compare("expired", wanted.expired, found.expired),
        compare("rejects", wanted.rejects, found.rejects),
        compare("states", wanted.lives, found.lives),
        compare_counts(wanted.counts, found.counts),
    ]
    return [each for each in every if not each.is_none]


def oracle_differences(
    given: CrashInput, rule: Rule, plans: Mapping[int, Planned], found: Outcome, *, processing: bool
) -> list[Difference]:
    """A run and the slow reference, fed with what the run itself planned, and when."""
    played = play(
        planned_batches(given, plans),
        rule,
        AGGREGATES,
        delay_ms=DELAY_MS,
        batch_times_ms=[plans[batch_id].time_ms for batch_id in sorted(plans)],
        processing_time=processing,
    )
    reference = played.reference
    open_rows = [row for row in reference.last_rows() if row.change == "update"]
    ends_of_lives = Counter(map(_row_fact, reference.expired))
    every = [
        *once_per_batch(found),
        compare("last updates", Counter(map(_row_fact, open_rows)), found.last_updates()),
        compare("expired", ends_of_lives, unbatched(found.expired)),
        compare("states", Counter(_state_facts(reference.states())), found.lives),
        compare_counts(counts_of(given, played), found.counts),
    ]
    return [each for each in every if not each.is_none]


def counts_of(given: CrashInput, played: Played) -> dict[str, int]:
    """What an operator with a policy should have counted."""
    counts = played.reference.counts
    return {
        "created": counts["created"],
        "returning_keys": counts["returning_keys"],
        "expired_lifetime": counts["lifetime"],
        "expired_idle": counts["idle"],
        "late": len(played.late),
        "malformed": given.malformed,
        "input": played.input_rows + given.malformed,
        "live": len(played.reference.lives),
    }


def planned_batches(given: CrashInput, plans: Mapping[int, Planned]) -> list[list[Record]]:
    """The records of each batch of a history."""
    assert sorted(plans) == list(range(len(plans)))
    ends = [0, *(plans[batch_id].last_file + 1 for batch_id in sorted(plans))]
    return [list(chain(*given.batches[first:stop])) for first, stop in pairwise(ends)]


def once_per_batch(found: Outcome) -> list[Difference]:
    """A batch updates a life once."""
    per_batch = found.updates_per_batch()
    return [compare("updates of a life in a batch", Counter(set(per_batch)), per_batch)]


def unbatched(facts: Counter[Fact]) -> Counter[Fact]:
    """Facts without the batch, which stands last in them."""
    return Counter(fact[:-1] for fact in facts.elements())


def read_back(outs: list[Path], log: Path) -> list[dict[str, Any]]:
    """What `state_reader.py` says of each folder."""
    command = [
        sys.executable,
        str(READER),
        UID,
        str(log),
        *(str(out / "checkpoint") for out in outs),
    ]
    limit_s = START_S + READING_S * len(outs)
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode != 0:
        raise AssertionError(f"reading state back failed:\n{done.stderr}")
    left = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(left) == len(outs)
    return left


def outcome_of(out: Path, state: dict[str, Any]) -> Outcome:
    """What a history of `retain` left, of which this was read back."""
    lives = ((one["user"], *(one[name] for name in (*AGGREGATES, *LIFE))) for one in state["lives"])
    updates, expired, rejects = (
        _sink_rows(out / folder) if (out / folder).exists() else _rows_of(state["changes"], change)
        for folder, change in (("results", "update"), ("expired", "expire"), ("rejects", "reject"))
    )
    return Outcome(
        updates=Counter(_sink_facts(updates, "update")),
        expired=Counter(_sink_facts(expired, "expire")),
        rejects=Counter((row["reason"], row["rejected"], batch_id) for row, batch_id in rejects),
        lives=Counter(lives),
        counts=state["counts"],
    )


def _rows_of(changes: list[dict[str, Any]], change: str) -> Rows:
    """Rows of a kind with their batch, out of a sink that has all of them."""
    return ((row, row["batch_id"]) for row in changes if row["change"] == change)


def _sink_facts(rows: Rows, change: str) -> Iterable[Fact]:
    for row, batch_id in rows:
        assert row["change"] == change, row
        fact = (row["user"], *(_plain(row[name]) for name in AGGREGATES))
        yield (*fact, *(_plain(row[name]) for name in ROW_TIMES), row["reason"], batch_id)


def _sink_rows(folder: Path) -> Rows:
    """Rows of a sink folder with their batch; nothing half-written may lie there."""
    for batch in sorted(folder.iterdir()):
        if batch.name.startswith("_idlestate.") or batch.name.endswith(".crc"):
            continue
        name, _, number = batch.name.partition("=")
        assert name == "batch_id", f"{batch} is left over"
        for path in sorted(batch.glob("*.parquet")):
            for row in pq.ParquetFile(path).read().to_pylist():
                yield row, int(number)


def _plain(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    # Spark writes moments in UTC, and Parquet's old type for them does not say so.
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _row_fact(row: Row) -> Fact:
    aggregates = (row.aggregates[name] for name in AGGREGATES)
    return (*row.key, *aggregates, *(getattr(row, name) for name in ROW_TIMES), row.reason)


def _life(fact: Fact) -> Fact:
    return fact[0], fact[FIRST_ACCESS]


def _batch_id(fact: Fact) -> Any:
    return fact[BATCH_ID]


def _state_facts(states: Mapping[Any, State]) -> Iterable[Fact]:
    for key, state in states.items():
        aggregates = (state.aggregates[name] for name in AGGREGATES)
        yield (*key, *aggregates, *(getattr(state, name) for name in LIFE))
