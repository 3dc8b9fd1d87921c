"""Operators in event time: how far they close lives is told by the commit log of their query."""

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.config.sidecar_settings import Sidecar as Settings
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.protocol.transfers import stream_of
from idlestate.sidecar.server.commit_logs import reached_ms
from idlestate.sidecar.server.sweep_and_cleanup_jobs import Background
from idlestate.timers.steady_clock import SteadyClock
from tests.backends.law_runner import Found, last_rows, run_reference
from tests.backends.test_law import IDLE, LONG, batch, named_case
from tests.compare import assert_rows, assert_states
from tests.reference import Rule
from tests.sidecar.test_law import Sidecar

SHORT = Rule(idle_min_ms=5, idle_max_ms=10)


@pytest.mark.parametrize("rule", [IDLE, LONG, SHORT])
def test_what_a_query_has_reached_is_closed_though_no_batch_comes(
    tmp_path: Path, rule: Rule
) -> None:
    """As the batch without data does that follows in Spark's own store: by the policy that held."""
    case = named_case(
        IDLE,
        [batch("a100 b170 c200"), [], batch("a210 b205")],
        [0, 199, 199],
        is_sorted=True,
        aggregates={"n": "count"},
        change=(2, rule),
    )
    sidecar = Sidecar(case, "heap", tmp_path / "state")
    assert sidecar.time is TimeDomain.EVENT

    def sweep() -> list[Found]:
        since = sidecar.operator.record.next_seq
        clock = SteadyClock(sidecar.clock)
        settings = Settings.model_validate({"directory": str(tmp_path)})
        Background([sidecar.operator], clock, settings, threading.Event()).sweep()  # type: ignore[arg-type]
        return sidecar.expired(since)

    rows = sidecar.run(0, 0)
    assert sweep() == []
    sidecar.reached_ms = 199
    sidecar.operator.batches.settle()
    sidecar.close()
    sidecar.start()
    ended = sweep()
    assert [row["key"] for row in ended] == [("a",)]
    rows += ended + sidecar.run(2, 199)
    since = sidecar.operator.record.next_seq
    sidecar.operator.batches.settle()
    rows += sidecar.expired(since)
    reference = run_reference(case)
    assert_rows(reference.last_rows(), last_rows(rows), case.aggregates)
    assert_states(reference.states(), sidecar.lives(), case.aggregates)
    sidecar.close()


def test_a_look_shows_no_life_that_ended_by_what_a_query_has_reached(tmp_path: Path) -> None:
    """Whether a sweep has come by since or not."""
    batches = [batch("a100 b170 c200"), batch("c210")]
    case = named_case(IDLE, batches, [0, 0], is_sorted=True, aggregates={"n": "count"})
    sidecar = Sidecar(case, "heap", tmp_path / "state")
    operator = sidecar.operator
    keys = stream_of(pa.table({sidecar.spec.key_names[0]: ["a", "b", "c"]}))

    def shown() -> list[int]:
        shards = range(len(operator.state.shards))
        lives = sum(len(operator.lives(at, 0, LOWEST_HASH)[0]) for at in shards)
        return [len(operator.look_up(keys, 0)[0]), lives]

    for batch_id, to_ms, left in ((0, 0, 3), (1, 199, 2)):
        sidecar.run(batch_id, 0)
        sidecar.reached_ms = to_ms
        operator.batches.settle()
        assert shown() == [left, left]
    sidecar.close()


def test_another_query_begins_where_it_begins(tmp_path: Path) -> None:
    """It may read what is older than all that the one before it had reached."""
    case = named_case(IDLE, [batch("a1000")], [0], is_sorted=True, aggregates={"n": "count"})
    sidecar = Sidecar(case, "heap", tmp_path / "state")
    sidecar.reached_ms = 999
    sidecar.run(0, 0)
    sidecar.operator.batches.settle()
    assert sidecar.operator.due_ms(10**12) == 999
    sidecar.operator.batches.release()
    assert sidecar.operator.due_ms(10**12) == 0
    sidecar.close()


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["v2", json.dumps({"nextBatchWatermarkMs": 1234, "stateUniqueIds": {}})], 1234),
        (["v1", json.dumps({"nextBatchWatermarkMs": 0})], 0),
        (["v1", "{}"], None),
        ([], None),
        (["v1"], None),
        (["v1", "[]"], None),
        (None, None),
    ],
)
def test_a_commit_log_says_how_far_event_time_got(
    tmp_path: Path, lines: list[str] | None, found: int | None
) -> None:
    if lines is not None:
        (tmp_path / "commits").mkdir()
        (tmp_path / "commits" / "7").write_text("\n".join(lines))
    assert reached_ms(str(tmp_path), 7) == found
