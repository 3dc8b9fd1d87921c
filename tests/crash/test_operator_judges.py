"""The judges of other operators: content with what the operator gives, and with nothing else."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from idlestate import hopping, session
from idlestate.pipeline.retain_harness import OperatorHarness
from idlestate.retention.policy import Policy
from idlestate.testing import FakeClock, FunctionHarness, RetainHarness
from tests.crash import own_job
from tests.crash.checkpoint_view import Planned
from tests.crash.crash_input import AGGREGATES, CrashInput, make_input
from tests.crash.operator_judges import JUDGES
from tests.crash.state_reader import plain

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
Left = dict[str, Any]


def harness(operator: str) -> OperatorHarness[Any]:
    more: dict[str, Any] = {"clock": FakeClock(NOW_MS), "malformed": "bad"}
    if operator == "process":
        output = "user string, what string, at_ms bigint"
        policy = Policy(idle_min="30m", idle_max="45m", remember="forever")
        more |= {"policy": policy, "output": output, "columns": ["amount"]}
        return FunctionHarness(SCHEMA, function=own_job.Visits(), **COMMON, **more)
    return RetainHarness(SCHEMA, aggregates=AGGREGATES, **COMMON, **more, **WINDOWS[operator])


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
    counts = {"late": tested.late_rows, "live": len(lives)}
    counts["input"] = sum(map(len, given.batches)) + len(given.batches)
    return {"changes": plainly(rows), "lives": plainly(lives), "counts": counts}


def plainly(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in rows]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> CrashInput:
    return make_input(tmp_path_factory.mktemp("crash") / "input", 20250303, 5)


@pytest.mark.parametrize(
    "operator", ["process", *(pytest.param(each, marks=pytest.mark.long) for each in WINDOWS)]
)
def test_a_judge_is_content_unless_a_row_a_life_or_a_count_is_lost_or_doubled(
    operator: str, given: CrashInput
) -> None:
    left = left_by(operator, given)
    last = given.last_batch
    plans = {number: Planned(NOW_MS, min(number, last)) for number in range(last + 2)}

    def wrong(left: Left) -> list[tuple[int, int]]:
        found = JUDGES[operator](given, plans, left)
        return [(each.lost.total(), each.doubled.total()) for each in found if not each.is_none]

    assert left["counts"]["late"] > 0
    assert left["lives"]
    assert wrong(left) == []
    assert wrong(left | {"changes": left["changes"][:-1]}) == [(1, 0)]
    assert (0, 1) in wrong(left | {"changes": [*left["changes"], left["changes"][-1]]})
    assert wrong(left | {"lives": left["lives"][1:]}) == [(1, 0)]
    assert wrong(left | {"counts": left["counts"] | {"late": 0}}) == [(1, 1)]
