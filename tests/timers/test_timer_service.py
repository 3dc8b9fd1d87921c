"""The timer service on every backend, where Flink has no recording: its jobs fail instead."""

import pytest

from idlestate.retention.policy import TimeDomain
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
