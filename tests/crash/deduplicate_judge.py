"""What a history of `deduplicate` should have left, by its slow reference."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.compare import ROW_TIMES
from tests.crash.checkpoint_view import Planned
from tests.crash.crash_input import DELAY_MS, EVENT_RULE, CrashInput
from tests.crash.outcome import (
    LIFE,
    Difference,
    Fact,
    compare,
    compare_counts,
    counts_of,
    facts,
    planned_batches,
)
from tests.crash.own_job import LIFETIME_MS
from tests.reference import ON_READ_AND_WRITE, Key, Record, Row, State
from tests.reference_deduplication import DeduplicationReference
from tests.reference_pipeline import play

COLUMNS = ("event_time", "amount")
RULES = {
    "first": replace(EVENT_RULE, update=ON_READ_AND_WRITE, max_lifetime_ms=LIFETIME_MS),
    "last": EVENT_RULE,
}
SHOWN = ("user", *COLUMNS, *ROW_TIMES, "reason")
KEPT = ("user", *COLUMNS, *LIFE)


def judge_deduplicate(
    given: CrashInput, plans: Mapping[int, Planned], left: Mapping[str, Any], keep: str
) -> list[Difference]:
    """First records with their batch; expire rows without, as with a sidecar they come later."""
    reference = DeduplicationReference(RULES[keep], COLUMNS, keep)
    played = play(
        [list(map(in_turn, records)) for records in planned_batches(given, plans)],
        reference.rule,
        {},
        delay_ms=DELAY_MS,
        batch_times_ms=[plans[batch_id].time_ms for batch_id in sorted(plans)],
        reference=reference,
    )
    firsts = [named(row.key, row) for row in reference.firsts]
    ends = [named(row.key, row) for row in reference.expired]
    lives = [named(key, state) for key, state in reference.states().items()]
    unfit = [*played.rejected, *((record, "late") for record in played.late)]
    rejects = Counter((why, *record.key, record.values["amount"]) for record, why in unfit)
    rejects["malformed", None, None] = given.malformed

    found: dict[str, list[Mapping[str, Any]]] = {"update": [], "expire": [], "reject": []}
    for row in left["changes"]:
        found[row["change"]].append(row)
    in_batch = *SHOWN, "batch_id"
    return [
        compare("results", facts(firsts, in_batch), facts(found["update"], in_batch)),
        compare("expired", facts(ends, SHOWN), facts(found["expire"], SHOWN)),
        compare("rejects", rejects, Counter(map(of_reject, found["reject"]))),
        compare("states", facts(lives, KEPT), facts(left["lives"], KEPT)),
        compare_counts(counts_of(given, played), left["counts"]),
    ]


def in_turn(record: Record) -> Record:
    """A record that has its place among those of its time by its value."""
    return replace(record, order=(record.values["amount"],))


def named(key: Key, one: Row | State) -> dict[str, Any]:
    """What the reference says of a life, by the names of columns."""
    return {"user": key[0], **vars(one), **one.aggregates}


def of_reject(row: Mapping[str, Any]) -> Fact:
    """Why a row was rejected, and which one it is."""
    if row["reason"] == "malformed":
        return "malformed", None, None
    rejected = json.loads(row["rejected"])
    return row["reason"], rejected["user"], rejected["amount"]
