"""The timer service: timers of both time domains for the keys of one operator.

It works like Flink's `InternalTimerServiceImpl`. Event time: `advance_watermark(W)` sets the
watermark and then fires all timers up to W, even if W is lower than before. Processing time: one
call is scheduled, for the first timer; it is rescheduled only if a new timer is strictly earlier,
and stays if that timer is removed. A timer in the past fires at the next opportunity; a due timer
registered during firing fires in the same call.

A timer is removed before its callback is called. If the callback raises an exception, this timer
does not fire again, and the other due timers fire with the next call. To repeat the failed one,
register it again or restore a snapshot.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from idlestate.retention.policy import TimeDomain
from idlestate.retention.rules import NEVER_MS
from idlestate.retention.setting_error import WrongTypeError
from idlestate.timers.timer import (
    Timer,
    TimerBatch,
    TimerCodec,
    TimerQueue,
    limit_from,
    time_from,
)

OnTimer = Callable[[Timer], None]


def check_domain(domain: object) -> None:
    """Raise `WrongTypeError` unless this is a `TimeDomain`; its text is not accepted."""
    if not isinstance(domain, TimeDomain):
        raise WrongTypeError(
            f"time domain {domain!r} is not valid; pass idlestate.TimeDomain.EVENT or "
            "idlestate.TimeDomain.PROCESSING"
        )


class CurrentKey(Protocol):
    """The current key; the service sets it to that of a timer before the timer fires."""

    key: Any


class TimerService:
    """Registers, deletes and fires timers.

    Times are 64-bit integers, of Python or numpy; any other raises `WrongTypeError` and changes
    nothing.

    Attributes:
        current_watermark_ms: the newest watermark; not part of snapshots.
        scheduled_ms: when to call `on_processing_time` next; None for never.
        fired: number of timers that have fired since the service was created.
    """

    def __init__(
        self,
        processing: TimerQueue,
        event: TimerQueue,
        codec: TimerCodec,
        current: CurrentKey,
        on_processing_time: OnTimer,
        on_event_time: OnTimer,
    ) -> None:
        """A service over these queues; each timer that fires is passed to a callback."""
        self._queues = {TimeDomain.PROCESSING: processing, TimeDomain.EVENT: event}
        self._codec = codec
        self._current = current
        self._on_processing_time = on_processing_time
        self._on_event_time = on_event_time
        self.current_watermark_ms = NEVER_MS
        self.fired = 0
        self.scheduled_ms = processing.peek_ms()

    def register(self, domain: TimeDomain, namespace: Any, timestamp_ms: int) -> None:
        """Register a timer of the current key for when the time of the domain reaches this one."""
        check_domain(domain)
        if domain is TimeDomain.EVENT:
            self.register_event_time_timer(namespace, timestamp_ms)
        else:
            self.register_processing_time_timer(namespace, timestamp_ms)

    def register_processing_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Register a timer of the current key for when the clock reaches this time."""
        timer = self._timer(namespace, timestamp_ms)
        self._register_processing(lambda queue: queue.add(timer))

    def register_event_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Register a timer of the current key for when the watermark reaches this time."""
        self._queues[TimeDomain.EVENT].add(self._timer(namespace, timestamp_ms))

    def register_many(
        self, domain: TimeDomain, keys: Any, namespace: Any, timestamps_ms: Any
    ) -> None:
        """One timer for each of many keys, all or none."""
        check_domain(domain)
        rows = self._codec.encode_many(keys, namespace, timestamps_ms)
        if domain is TimeDomain.EVENT:
            self._queues[domain].add_rows(rows)
        else:
            self._register_processing(lambda queue: queue.add_rows(rows))

    def take_due(self, domain: TimeDomain, until_ms: int, limit: int) -> TimerBatch:
        """Remove and return up to `limit` timers that are not later than this, without firing them.

        On heap in order of time; in RocksDB by key group.
        """
        check_domain(domain)
        queue = self._queues[domain]
        rows = queue.poll_rows(time_from(until_ms), limit_from("limit", limit))
        taken = self._codec.decode_many(rows)
        if domain is TimeDomain.PROCESSING:
            self.scheduled_ms = queue.peek_ms()
        return taken

    def _register_processing(self, add: Callable[[TimerQueue], int]) -> None:
        queue = self._queues[TimeDomain.PROCESSING]
        before = queue.peek_ms()
        if not add(queue):
            return
        first = queue.peek_ms()
        if before is None or (first is not None and first < before):
            self.scheduled_ms = first

    def delete(self, domain: TimeDomain, namespace: Any, timestamp_ms: int) -> None:
        """Delete a timer of the current key, if it exists."""
        check_domain(domain)
        self._queues[domain].remove(self._timer(namespace, timestamp_ms))

    def delete_processing_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Delete a timer of the current key, if it exists."""
        self._queues[TimeDomain.PROCESSING].remove(self._timer(namespace, timestamp_ms))

    def delete_event_time_timer(self, namespace: Any, timestamp_ms: int) -> None:
        """Delete a timer of the current key, if it exists."""
        self._queues[TimeDomain.EVENT].remove(self._timer(namespace, timestamp_ms))

    def _timer(self, namespace: Any, timestamp_ms: int) -> Timer:
        return Timer(time_from(timestamp_ms), self._current.key, namespace)

    def advance_watermark(self, watermark_ms: int) -> int:
        """Set the watermark and fire the event-time timers up to it; return how many."""
        self.current_watermark_ms = time_from(watermark_ms)
        return self._fire(TimeDomain.EVENT, self.current_watermark_ms, self._on_event_time)

    def on_processing_time(self, time_ms: int) -> int:
        """Fire all processing-time timers up to this time; return how many."""
        until_ms, self.scheduled_ms = time_from(time_ms), None
        try:
            return self._fire(TimeDomain.PROCESSING, until_ms, self._on_processing_time)
        finally:
            if self.scheduled_ms is None:
                self.scheduled_ms = self._queues[TimeDomain.PROCESSING].peek_ms()

    def advance_processing_time(self, now_ms: int) -> int:
        """Make every scheduled call up to now, each with its time; return how many timers fired."""
        until_ms, fired = time_from(now_ms), 0
        while self.scheduled_ms is not None and self.scheduled_ms <= until_ms:
            fired += self.on_processing_time(self.scheduled_ms)
        return fired

    def _fire(self, domain: TimeDomain, until_ms: int, on_timer: OnTimer) -> int:
        queue, fired = self._queues[domain], 0
        while (timer := queue.poll(until_ms)) is not None:
            self._current.key = timer.key
            fired += 1
            self.fired += 1
            on_timer(timer)
        return fired

    def close(self, closed: Any) -> None:
        """Replace the queues, so that every later call raises the error of the replacement."""
        self._queues = dict.fromkeys(TimeDomain, closed)

    def count(self, domain: TimeDomain) -> int:
        """The number of waiting timers."""
        check_domain(domain)
        return len(self._queues[domain])

    def times_ms(self, domain: TimeDomain) -> npt.NDArray[np.int64]:
        """The times of the waiting timers, in any order; much faster than `timers`."""
        check_domain(domain)
        return self._queues[domain].times_ms()

    def timers(self, domain: TimeDomain) -> Iterable[Timer]:
        """The waiting timers of a domain, by key group, then in order."""
        check_domain(domain)
        return iter(self._queues[domain])
