"""Batches and watermarks of the reference, by examples worked by hand."""

import pytest

from tests.reference import Record, Rule
from tests.reference_pipeline import make_sequence, play

IDLE = Rule(idle_min_ms=30, idle_max_ms=45)
KEY = ("k",)


def test_a_batch_is_ordered_by_time_then_order_then_writes_before_reads():
    batch = [
        Record(KEY, 2, order=(None,)),
        Record(KEY, 1, read=True, order=(1,)),
        Record(KEY, 1, order=(2,)),
        Record(KEY, 1, order=(1,)),
        Record(KEY, 1, order=(None,)),
    ]
    found = [(record.t_ms, record.order[0], record.read) for record in make_sequence(batch)]
    assert found == [
        (1, None, False),
        (1, 1, False),
        (1, 1, True),
        (1, 2, False),
        (2, None, False),
    ]


def at(*times):
    return [Record((t,), t) for t in times]


def test_a_row_is_late_at_the_watermark_and_on_time_above_it():
    played = play([at(1000), at(1000 - 11, 1000 - 10)], IDLE, {}, delay_ms=10, min_event_time_ms=0)
    assert played.watermarks == [0, 989]
    assert [record.t_ms for record in played.late] == [989]


def test_nothing_is_late_in_the_first_batch():
    assert not play([at(1000, 5)], IDLE, {}, min_event_time_ms=0).late


def test_rejected_rows_do_not_move_the_watermark():
    rows = [*at(100, 500, 5), Record(("x",), None)]
    played = play(
        [rows, at(200)],
        IDLE,
        {},
        batch_times_ms=[150, 300],
        max_ahead_ms=50,
        min_event_time_ms=10,
    )
    reasons = [reason for _, reason in played.rejected]
    assert reasons == ["too_far_ahead", "too_old", "null_time"]
    assert played.watermarks == [0, 99]


@pytest.mark.parametrize(
    ("options", "closed"),
    [({}, 1), ({"delay_ms": 1}, 0), ({"final_sweep": False}, 0)],
)
def test_the_input_ends_with_one_sweep_below_the_highest_time(options, closed):
    played = play([[Record(KEY, 1000)], at(1045 + 1)], IDLE, {}, min_event_time_ms=0, **options)
    assert played.reference.counts["idle"] == closed


def test_processing_time_counts_at_the_batchs_time_and_never_runs_back():
    played = play(
        [[Record(KEY, 1)], [Record(KEY, 1)], [Record(KEY, 1)]],
        IDLE,
        {},
        batch_times_ms=[100, 90, 145],
        processing_time=True,
    )
    assert played.watermarks == [100, 100, 145]
    (row,) = played.reference.expired
    assert (row.created_at, row.expired_at, row.reason) == (100, 145, "idle")
    assert played.reference.states()[KEY].created_at == 145
