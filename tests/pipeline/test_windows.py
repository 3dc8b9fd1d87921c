"""`retain` by window, batch by batch: boundaries by name, the law for sessions, and refusals."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate import Policy, cumulate, hopping, session, tumbling
from idlestate.errors import RefusedError
from idlestate.retention.windows import Windows
from idlestate.testing import RetainHarness
from tests import window_reference as reference
from tests.reference import Record

SCHEMA = pa.schema([("k", pa.string()), ("t", pa.timestamp("us", "UTC")), ("v", pa.int64())])
START = datetime(2024, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
TEXTS = {"n": "count", "last_v": "last(v)"}


def harness(window: Windows, delay: str = "0s", **more: Any) -> RetainHarness:
    return RetainHarness(
        SCHEMA, key="k", aggregates=TEXTS, event_time="t", delay=delay, window=window, **more
    )


def rows(*times_ms: int, key: str = "a") -> list[dict[str, Any]]:
    return [{"k": key, "t": START + timedelta(milliseconds=t_ms), "v": t_ms} for t_ms in times_ms]


def ms(moment: datetime | None) -> int | None:
    return None if moment is None else round((moment - START) / timedelta(milliseconds=1))


def shown(found: Sequence[dict[str, Any]], change: str) -> list[tuple[Any, ...]]:
    """Start, end and number of records of each window, in order of start and end."""
    chosen = [row for row in found if row["change"] == change]
    return sorted((ms(row["window_start"]), ms(row["window_end"]), row["n"]) for row in chosen)


def test_a_record_in_the_last_millisecond_of_a_window_and_one_at_its_end_are_apart() -> None:
    found = harness(tumbling("10ms")).batch(rows(0, 9, 10))
    assert shown(found, "update") == [(0, 10, 2), (10, 20, 1)]


def test_a_window_closes_when_the_watermark_reaches_its_last_millisecond() -> None:
    op = harness(tumbling("10ms"))
    op.batch(rows(3))
    op.batch(rows(9))  # then the watermark is 8
    assert shown(op.batch([]), "expire") == []
    op.batch(rows(10))  # then it is 9, the window's end less 1
    (closed,) = op.batch([])
    assert (closed["change"], closed["n"], closed["last_v"]) == ("expire", 2, 9)
    assert ms(closed["expired_at"]) == 9
    assert ms(closed["created_at"]) == 0
    assert ms(closed["last_access"]) == 9
    assert closed["reason"] == "lifetime"


def test_a_late_record_changes_no_window_even_if_its_window_is_open() -> None:
    op = harness(tumbling("10ms"), rejects=True)
    op.batch(rows(8))
    found = op.batch(rows(7, 6, 8))  # the watermark is 7
    assert shown(found, "update") == [(0, 10, 2)]
    assert [row["reason"] for row in found if row["change"] == "reject"] == ["late", "late"]


def test_hopping_windows_overlap() -> None:
    found = harness(hopping("10ms", "5ms")).batch(rows(4, 5, 9, 10))
    assert shown(found, "update") == [(-5, 5, 1), (0, 10, 3), (5, 15, 3), (10, 20, 1)]


def test_cumulating_windows_have_one_start_and_grow() -> None:
    op = harness(cumulate("10ms", "5ms"))
    found = op.batch(rows(4, 5, 9, 10))
    assert shown(found, "update") == [(0, 5, 1), (0, 10, 3), (10, 15, 1), (10, 20, 1)]
    closed = op.batch([])
    assert shown(closed, "expire") == [(0, 5, 1), (0, 10, 3)]
    assert {ms(row["created_at"]) for row in closed} == {0}


def test_sessions_merge_at_exactly_the_gap_and_not_a_millisecond_later() -> None:
    op = harness(session("10ms"))
    found = [*op.batch(rows(0, 10, 21)), *op.finish()]
    assert shown(found, "expire") == [(0, 20, 2)]
    assert [(ms(life["window_start"]), life["n"]) for life in op.lives()] == [(21, 1)]


def test_a_session_is_shown_to_end_a_gap_after_its_last_record() -> None:
    op = harness(session("10ms"))
    op.batch(rows(0, 4))
    op.batch(rows(20, key="b"))
    (closed,) = [row for row in op.batch([]) if row["change"] == "expire"]
    assert (ms(closed["window_start"]), ms(closed["window_end"])) == (0, 14)
    assert ms(closed["expired_at"]) == 15
    assert closed["reason"] == "idle"


def test_a_record_that_comes_after_two_sessions_joins_them() -> None:
    op = harness(session("10ms"), "20ms")
    found = [*op.batch(rows(0)), *op.batch(rows(16)), *op.batch(rows(8)), *op.batch(rows(60))]
    assert shown([*found, *op.finish()], "expire") == [(0, 26, 3)]


def test_without_in_order_a_session_begins_with_the_record_that_came_first() -> None:
    op = harness(session("10ms"), "20ms", in_order=False)
    assert shown(op.batch(rows(16)), "update") == [(16, 26, 1)]
    assert shown(op.batch(rows(8)), "update") == [(16, 26, 2)]


def test_open_windows_are_read_with_their_bounds() -> None:
    op = harness(hopping("10ms", "5ms"))
    op.batch(rows(7))
    found = sorted(op.lives(), key=lambda life: life["window_start"])
    bounds = [(ms(life["window_start"]), ms(life["window_end"])) for life in found]
    assert bounds == [(0, 10), (5, 15)]
    assert [ms(life["deadline"]) for life in found] == [9, 14]
    assert list(found[0])[:4] == ["k", "window_start", "window_end", "n"]


def test_the_first_result_of_a_window_waits_for_fire_after() -> None:
    op = harness(tumbling("10ms"), "20ms", fire_after="5ms")
    assert op.batch(rows(3, 4)) == []
    assert op.batch(rows(14)) == []  # 14 is not 5 past the end yet
    assert op.batch(rows(16)) == []  # when this batch is planned, 14 is the newest record
    assert shown(op.batch(rows(17)), "update") == [(0, 10, 2)]  # nothing of it is in this batch
    assert op.batch(rows(18)) == []
    assert shown(op.batch(rows(9, 19)), "update") == [(0, 10, 3)]
    op.batch(rows(31))
    assert shown(op.batch([]), "expire") == [(0, 10, 3)]


@pytest.mark.parametrize(
    ("before", "after", "t_ms", "shown_at_ms"),
    [
        pytest.param(("60ms", "2ms"), ("60ms", "30ms"), 41, 81, id="fire_after raised"),
        pytest.param(("10ms", "5ms"), ("60ms", "5ms"), 61, 76, id="delay raised"),
        pytest.param(("60ms", "5ms"), ("10ms", "5ms"), 61, 76, id="delay lowered"),
    ],
)
def test_fire_after_and_delay_may_change_between_two_starts(
    before: tuple[str, str], after: tuple[str, str], t_ms: int, shown_at_ms: int
) -> None:
    op, changed = (
        harness(tumbling("10ms"), delay, fire_after=fire_after)
        for delay, fire_after in (before, after)
    )
    op.batch(rows(60, key="x"))
    op.batch(rows(60, key="x"))
    op._inputs = changed._inputs
    op.batch([*rows(t_ms), *rows(61, key="x")])
    newest_ms, found = 61, []
    for next_ms in (62, 74, 76, 77, 79, 81, 83, 85):
        found_rows = op.batch(rows(next_ms, key="x"))
        if any((row["k"], row["change"]) == ("a", "update") for row in found_rows):
            found.append(newest_ms)
        newest_ms = next_ms
    assert found == [shown_at_ms]


def test_a_batch_without_data_shows_no_window_for_the_first_time() -> None:
    op = harness(tumbling("10ms"), "20ms", fire_after="5ms")
    op.batch(rows(3, 16))
    assert op.batch([]) == []
    assert shown(op.batch(rows(16)), "update") == [(0, 10, 1)]


def test_with_fire_after_of_the_delay_windows_have_their_final_result_alone() -> None:
    op = harness(tumbling("10ms"), "5ms", fire_after="5ms")
    found = [*op.batch(rows(3, 9, 14)), *op.batch(rows(15, 16)), *op.batch(rows(40)), *op.batch([])]
    assert shown(found, "update") == []
    assert shown(found, "expire") == [(0, 10, 2), (10, 20, 3)]


def test_such_windows_are_not_shown_after_a_change_of_the_delay_either() -> None:
    op, changed = (harness(tumbling("10ms"), delay, fire_after=delay) for delay in ("60ms", "10ms"))
    op.batch(rows(3, 60))
    op._inputs = changed._inputs
    found = [*op.batch(rows(61)), *op.batch(rows(62)), *op.batch(rows(63))]
    assert shown(found, "update") == []
    assert shown(found, "expire") == [(0, 10, 1)]


def test_a_session_is_shown_first_when_its_gap_and_fire_after_are_over() -> None:
    op = harness(session("10ms"), "50ms", fire_after="5ms", in_order=False)
    assert op.batch(rows(0)) == []
    assert op.batch(rows(15, key="b")) == []
    assert op.batch(rows(16, key="b")) == []
    assert shown(op.batch(rows(8)), "update") == []  # which made it longer: up to 18
    assert op.batch(rows(24, key="b")) == []
    op.batch(rows(25, key="b"))
    assert shown(op.batch(rows(25, key="b")), "update") == [(0, 18, 2)]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"fire_after": "1m"}, "fire_after is longer than delay, .* use at most 10ms"),
        ({"fire_after": "soon"}, "fire_after: "),
        ({"fire_after": "1ms", "window": None}, "fire_after applies to windows"),
    ],
)
def test_what_does_not_fit_as_fire_after_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(RefusedError, match=told):
        harness(**{"window": tumbling("10ms"), "delay": "10ms", **more})


def test_sessions_in_order_and_their_early_results_are_refused() -> None:
    told = r"session\(10ms\) counts rows in order, which cannot .* fire_after: .*in_order=False"
    with pytest.raises(RefusedError, match=told):
        harness(session("10ms"), "10ms", fire_after="1ms")


@pytest.mark.parametrize("window", [tumbling("10ms"), session("10ms")], ids=str)
def test_what_cannot_be_combined_with_a_window_is_refused(window: Windows) -> None:
    with pytest.raises(RefusedError, match="policy cannot be combined with window"):
        harness(window, policy=Policy(ttl="1h"))
    with pytest.raises(RefusedError, match="config cannot be combined with window"):
        harness(window, config="config/clicks.yaml")
    with pytest.raises(RefusedError, match="read_when cannot be combined with window"):
        harness(window, read_when="v")


def test_a_window_that_is_text_and_names_of_its_columns_are_refused() -> None:
    with pytest.raises(RefusedError, match="window: 'tumbling' cannot be used here"):
        harness("tumbling")  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="the name window_end is used twice"):
        RetainHarness(
            SCHEMA,
            key="k",
            aggregates={"window_end": "count"},
            event_time="t",
            window=tumbling("1m"),
        )
    with pytest.raises(RefusedError, match="uses event time; pass the column"):
        RetainHarness(SCHEMA, key="k", aggregates=TEXTS, window=tumbling("1m"))


@given(
    times=st.lists(st.tuples(st.sampled_from("aab"), st.integers(0, 80)), max_size=25),
    gap_ms=st.integers(2, 8),
    delay_ms=st.integers(0, 40),
    cuts=st.lists(st.integers(0, 25), max_size=5),
)
def test_sessions_are_those_of_the_reference_however_records_come(
    times: list[tuple[str, int]], gap_ms: int, delay_ms: int, cuts: list[int]
) -> None:
    op = harness(session(f"{gap_ms}ms"), f"{delay_ms}ms")
    wanted = reference.Sessions(gap_ms)
    found, highest = [], -START_MS
    for first, stop in pairwise([0, *sorted(cuts), len(times)]):
        batch = times[first:stop]
        found += op.batch([row for key, t_ms in batch for row in rows(t_ms, key=key)])
        for key, t_ms in batch:
            if t_ms > highest - delay_ms - 1:
                wanted.take(Record((key,), t_ms, {"v": t_ms}))
        highest = max([highest, *(t_ms for _, t_ms in batch)])
    found += op.finish()
    newest = {span.key: span for span in sorted(wanted.open, key=lambda each: each.start_ms)}
    open_spans = [span for span in newest.values() if span.end_ms + 1 > highest]
    assert shown(found, "expire") == spans([each for each in wanted.open if each not in open_spans])
    left = [(ms(life["window_start"]), ms(life["window_end"]), life["n"]) for life in op.lives()]
    assert sorted(left) == spans(open_spans)


def spans(found: Sequence[reference.Span]) -> list[tuple[Any, ...]]:
    return sorted((span.start_ms, span.end_ms, len(span.records)) for span in found)
