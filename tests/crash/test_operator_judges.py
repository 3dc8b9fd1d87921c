"""The judges of other operators: content with what the operator gives, and with nothing else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from idlestate import hopping, session
from idlestate.pipeline.deduplicate import deduplication_of
from idlestate.pipeline.retain_harness import OperatorHarness
from idlestate.retention.policy import Policy, UpdateType
from idlestate.testing import FakeClock, FunctionHarness, RetainHarness
from tests.crash import own_job
from tests.crash.checkpoint_view import Planned
from tests.crash.crash_input import AGGREGATES, CrashInput, make_input
from tests.crash.operator_judges import JUDGES
from tests.crash.state_reader import counts, plain

NOW_MS = 1_780_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = {
    "user": pa.string(),
    "event_time": pa.timestamp("us", "UTC"),
    "amount": pa.int64(),
    "bad": pa.string(),
}
COMMON: dict[str, Any] = {"key": "user", "event_time": "event_time", "delay": "5m"}
WINDOWS = {
    "session": {"window": session(f"{own_job.GAP_MS}ms")},
    "hopping": {
        "window": hopping(f"{own_job.SIZE_MS}ms", f"{own_job.SLIDE_MS}ms"),
        "fire_after": f"{own_job.FIRE_AFTER_MS}ms",
    },
}
KEEPS = {"deduplicate_first": "first", "deduplicate_last": "last"}
POLICY = Policy(idle_min="30m", idle_max="45m", remember="forever")
BLOCKING = replace(POLICY, update=UpdateType.ON_READ_AND_WRITE, max_lifetime_ms=own_job.LIFETIME_MS)
Left = dict[str, Any]


def harness(operator: str) -> OperatorHarness[Any]:
    more: dict[str, Any] = {"clock": FakeClock(NOW_MS), "malformed": "bad"}
    if operator == "process":
        output = "user string, what string, at_ms bigint"
        more |= {"policy": POLICY, "output": output, "columns": ["amount"]}
        return FunctionHarness(SCHEMA, function=own_job.Visits(), **COMMON, **more)
    if operator in KEEPS:
        return deduplicating(operator, **COMMON, **more)
    return RetainHarness(SCHEMA, aggregates=AGGREGATES, **COMMON, **more, **WINDOWS[operator])


def deduplicating(operator: str, *, clock: FakeClock, **arguments: Any) -> OperatorHarness[Any]:
    return OperatorHarness(
        SCHEMA,
        lambda columns: deduplication_of(columns, KEEPS[operator], arguments["malformed"]),
        clock,
        **arguments,
        policy=POLICY if operator == "deduplicate_last" else BLOCKING,
        rejects=True,
        config=None,
        order=(),
        read_when=None,
        max_ahead="1h",
        min_event_time="1970-01-02",
        null_key="keep",
    )


def left_by(operator: str, given: CrashInput) -> Left:
    """What a query with a file per batch leaves, as it is read back."""
    tested, rows = harness(operator), list[dict[str, Any]]()
    for records in given.batches:
        batch: list[dict[str, Any]] = [{"bad": "{"}]
        for record in records:
            t_ms = record.t_ms
            moment = None if t_ms is None else EPOCH + timedelta(milliseconds=t_ms)
            values = {"event_time": moment, "amount": record.values["amount"]}
            batch.append({"user": record.key[0], **values})
        rows += tested.batch(batch)
    rows += tested.finish()
    lives = tested.lives()
    return {"changes": plainly(rows), "lives": plainly(lives), "counts": counts([tested._record])}


def plainly(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in rows]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> CrashInput:
    return make_input(tmp_path_factory.mktemp("crash") / "input", 20250303, 5)


def wrong(operator: str, given: CrashInput, left: Left) -> list[tuple[int, int]]:
    """How much the judge of an operator finds lost and doubled, of each kind that it compares."""
    last = given.last_batch
    plans = {number: Planned(NOW_MS, min(number, last)) for number in range(last + 2)}
    found = JUDGES[operator](given, plans, left)
    return [(each.lost.total(), each.doubled.total()) for each in found if not each.is_none]


@pytest.mark.parametrize(
    "operator",
    ["process", *(pytest.param(each, marks=pytest.mark.long) for each in (*WINDOWS, *KEEPS))],
)
def test_a_judge_is_content_unless_a_row_a_life_or_a_count_is_lost_or_doubled(
    operator: str, given: CrashInput
) -> None:
    left = left_by(operator, given)
    changes, lives = left["changes"], left["lives"]
    assert left["counts"]["late"] > 0
    assert lives
    assert wrong(operator, given, left) == []
    assert wrong(operator, given, left | {"changes": changes[:-1]}) == [(1, 0)]
    assert (0, 1) in wrong(operator, given, left | {"changes": [*changes, changes[-1]]})
    assert wrong(operator, given, left | {"lives": lives[1:]}) == [(1, 0)]
    assert wrong(operator, given, left | {"counts": left["counts"] | {"late": 0}}) == [(1, 1)]


@pytest.mark.parametrize(
    "operator", ["deduplicate_first", pytest.param("deduplicate_last", marks=pytest.mark.long)]
)
def test_a_judge_of_deduplicate_finds_a_lost_and_a_doubled_row_of_each_kind(
    operator: str, given: CrashInput
) -> None:
    left = left_by(operator, given)
    changes = left["changes"]
    a_row = {(row["change"], row["change"] == "reject" and row["reason"]): row for row in changes}
    shown = {("update", False)} if operator == "deduplicate_first" else set()
    rejected = {("reject", why) for why in ("late", "malformed", "null_time", "too_old")}
    assert a_row.keys() == {("expire", False), ("reject", "too_far_ahead"), *shown, *rejected}
    rows = [*a_row.values()]
    rest = [row for row in changes if not any(row is one for one in rows)]
    each = [1, 1, 5] if shown else [1, 5]
    assert wrong(operator, given, left | {"changes": rest}) == [(n, 0) for n in each]
    assert wrong(operator, given, left | {"changes": [*changes, *rows]}) == [(0, n) for n in each]


@pytest.mark.parametrize("operator", [pytest.param(each, marks=pytest.mark.long) for each in KEEPS])
def test_a_judge_of_deduplicate_finds_a_changed_row_of_each_kind(
    operator: str, given: CrashInput
) -> None:
    left = left_by(operator, given)
    *_, expired = (row for row in left["changes"] if row["change"] == "expire")
    rows = [{**row, "amount": -1} if row is expired else row for row in left["changes"]]
    assert wrong(operator, given, left | {"changes": rows}) == [(1, 1)]
    first, *more = left["lives"]
    for name in ("amount", "armed_at", "deadline"):
        lives = [{**first, name: -1}, *more]
        assert wrong(operator, given, left | {"lives": lives}) == [(1, 1)]
