"""Windows as values: text, alignment, slices, and what is refused."""

import re
from datetime import timedelta

import numpy as np
import pytest

from idlestate import cumulate, hopping, session, tumbling
from idlestate.retention.windows import WindowError, Windows, parse_window

ALL = [tumbling("10m"), hopping("10m", "1m"), cumulate("1h", "5m"), session("30m")]


@pytest.mark.parametrize("window", ALL, ids=str)
def test_the_text_of_a_window_is_read_back(window: Windows) -> None:
    assert parse_window(str(window)) == window


def test_spans_may_be_timedeltas_and_texts_may_lack_spaces() -> None:
    assert hopping(timedelta(minutes=10), timedelta(minutes=1)) == parse_window("hopping(10m,1m)")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tumbling", "is not a window; use tumbling(10m)"),
        ("sliding(10m)", "is not a window"),
        ("tumbling(10m, 1m)", "takes one duration, such as tumbling(10m)"),
        ("hopping(10m)", "needs two durations, such as hopping(1h, 1m)"),
        ("tumbling(10)", 'tumbling: "10" has no unit'),
        ("tumbling(1ms)", "1ms is too short; use at least 2ms"),
        ("hopping(10m, 0s)", "hopping: slide: 0s is too short"),
        ("cumulate(10m, 3m)", "size 10m is not a multiple of step 3m"),
        ("hopping(1m, 10m)", "size 1m is not a multiple of slide 10m"),
        ("hopping(1d, 1s)", "in up to 86,400 windows; use a slide of at least 1m"),
    ],
)
def test_windows_that_make_no_sense_are_refused(text: str, told: str) -> None:
    with pytest.raises(WindowError, match=re.escape(told)):
        parse_window(text)


def test_slices_before_and_at_an_end_are_of_different_windows() -> None:
    times_ms = np.array([0, 9, 10, 599_999, 600_000])
    assert tumbling("10ms").slice_ends_ms(times_ms).tolist() == [10, 10, 20, 600_000, 600_010]


def test_a_slice_is_in_every_hopping_window_that_it_lies_in() -> None:
    at, ends_ms = hopping("10ms", "5ms").of_slices(np.array([5, 30]))
    assert at.tolist() == [0, 0, 1, 1]
    assert ends_ms.tolist() == [5, 10, 30, 35]


def test_a_slice_is_in_the_windows_of_its_size_that_end_with_it_or_later() -> None:
    window = cumulate("15ms", "5ms")
    at, ends_ms = window.of_slices(np.array([5, 10, 15, 20]))
    assert at.tolist() == [0, 0, 0, 1, 1, 2, 3, 3, 3]
    assert ends_ms.tolist() == [5, 10, 15, 10, 15, 15, 20, 25, 30]
    starts_ms, shown_ms = window.bounds_ms(window.begins_ms(ends_ms), ends_ms)
    assert starts_ms.tolist() == [0, 0, 0, 0, 0, 0, 15, 15, 15]
    assert shown_ms.tolist() == ends_ms.tolist()
