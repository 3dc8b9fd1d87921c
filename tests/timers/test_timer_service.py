"""The timer service on every backend, where Flink has no recording: its jobs fail instead."""

import numpy as np
import pytest

from idlestate.retention.policy import TimeDomain
from idlestate.retention.rules import NEVER_MS
from idlestate.state.backend_factory import open_backend


class CallbackError(Exception):
    """What a callback raises."""


@pytest.fixture(params=["heap", "rocksdb", "runs"])
def backend(request, tmp_path):
    place = None if request.param == "heap" else tmp_path / "db"
    with open_backend(request.param, place) as opened:
        opened.set_current_key("k")
        yield opened


@pytest.mark.parametrize("domain", TimeDomain)
def test_after_an_exception_in_a_callback_the_other_timers_fire(backend, domain):
    fired = []

    def on_timer(timer):
        fired.append(timer.timestamp_ms)
        if timer.timestamp_ms == 10:
            raise CallbackError

    timers = backend.timer_service("t", on_timer, on_timer)
    register, advance = {
        TimeDomain.EVENT: (timers.register_event_time_timer, timers.advance_watermark),
        TimeDomain.PROCESSING: (
            timers.register_processing_time_timer,
            timers.advance_processing_time,
        ),
    }[domain]
    for time_ms in (10, 11, 30):
        register(None, time_ms)
    with pytest.raises(CallbackError):
        advance(20)
    assert sorted(timers.times_ms(domain)) == [11, 30]
    register(None, 40)
    assert advance(30) == 2
    assert fired == [10, 11, 30]
    assert advance(40) == 1


def test_times_may_be_integers_of_numpy(backend):
    fired = []
    timers = backend.timer_service("t", fired.append, fired.append)
    for time_ms in np.array([5, 6, 7]):
        timers.register_event_time_timer(None, time_ms)
        timers.register_processing_time_timer(None, time_ms)
    timers.delete_event_time_timer(None, np.int64(6))
    timers.delete_processing_time_timer(None, np.int16(6))
    assert timers.advance_watermark(np.int64(5)) == 1
    assert timers.advance_processing_time(np.int64(5)) == 1
    assert len(timers.take_due(TimeDomain.EVENT, np.uint64(7), 10).keys) == 1
    assert timers.on_processing_time(np.int32(7)) == 1
    times = [*(timer.timestamp_ms for timer in fired), timers.current_watermark_ms]
    assert times == [5, 5, 7, 5]
    assert set(map(type, times)) == {int}


@pytest.mark.parametrize("time_ms", [50.0, np.float64(50), "50", None, 2**63, -(2**63) - 1])
def test_a_time_that_is_not_a_64_bit_integer_changes_nothing(backend, time_ms):
    fired = []
    timers = backend.timer_service("t", fired.append, fired.append)
    timers.register_event_time_timer(None, 5)
    timers.register_processing_time_timer(None, 5)
    for call in (
        lambda: timers.register_event_time_timer(None, time_ms),
        lambda: timers.register_processing_time_timer(None, time_ms),
        lambda: timers.delete_event_time_timer(None, time_ms),
        lambda: timers.delete_processing_time_timer(None, time_ms),
        lambda: timers.advance_watermark(time_ms),
        lambda: timers.advance_processing_time(time_ms),
        lambda: timers.on_processing_time(time_ms),
        lambda: timers.take_due(TimeDomain.EVENT, time_ms, 1),
    ):
        with pytest.raises(TypeError, match="pass milliseconds as a 64-bit integer"):
            call()
    assert timers.current_watermark_ms == NEVER_MS
    assert timers.scheduled_ms == 5
    assert [timers.count(domain) for domain in TimeDomain] == [1, 1]
    assert not fired
