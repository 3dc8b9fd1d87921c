"""The outcome of a window for a log."""

from collections.abc import Sequence
from dataclasses import dataclass

from idlestate.advisor.censored_windows import is_censored
from idlestate.advisor.event_log import EventLog, Extent
from idlestate.advisor.partial_counts import LifeCounts
from idlestate.advisor.peak import peaks
from idlestate.advisor.window_ladder import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOutcome:
    """A log under one window; keys count from their first event in the log.

    Attributes:
        idle_min_ms: an idle key is kept at least this long.
        idle_max_ms: an idle key is kept at most this long.
        created: lives that began.
        expired: lives that ended, including those ended by a final sweep after the last event.
        returning: lives whose key had expired before, as a job counts them with
            `remember: forever`.
        returning_remembered: returning lives that began within the idle max after the key's last
            life, as a job counts them by default.
        returning_share: returning lives among all, 0 to 1.
        mean_keys: live keys, averaged over the log's span.
        peak_keys: the most keys live at once.
        held_keys: keys that a job holds after each batch: it closes lives only up to the watermark,
            which comes from the batches before. Empty without batches.
        most_keys: the largest of `held_keys`, or `peak_keys` without batches.
        mean_bytes: `mean_keys` in bytes of state.
        most_bytes: `most_keys` in bytes of state.
        is_censored: whether the window is longer than a third of the log. Then many keys would have
            returned after the log's end, so the figures are too optimistic.
    """

    idle_min_ms: int
    idle_max_ms: int
    created: int
    expired: int
    returning: int
    returning_remembered: int
    returning_share: float
    mean_keys: float
    peak_keys: int
    held_keys: tuple[int, ...]
    most_keys: int
    mean_bytes: int
    most_bytes: int
    is_censored: bool

    @property
    def window(self) -> Window:
        """The window."""
        return Window(self.idle_min_ms, self.idle_max_ms)


@dataclass(frozen=True, slots=True)
class HalfOutcome:
    """Half a log under one window; see `WindowOutcome`."""

    idle_min_ms: int
    idle_max_ms: int
    returning_share: float
    mean_keys: float


def figures(
    log: EventLog, windows: Sequence[Window], bytes_per_key: float, delay_ms: int
) -> list[WindowOutcome]:
    """The figures of each window.

    Args:
        log: the log.
        windows: the windows.
        bytes_per_key: bytes of state per live key.
        delay_ms: how far the watermark lags behind the newest event.
    """
    extent = log.extent
    tallies = log.tallies(windows, extent.last_ms - delay_ms - 1)
    peak_keys = peaks(log.live, windows, extent.first_ms, extent.last_ms, log.pieces)
    found = []
    for window, tally, peak, held in zip(
        windows, tallies, peak_keys, log.held(windows), strict=True
    ):
        most = int(max(held, default=peak))
        mean = _mean_keys(tally, extent)
        found.append(
            WindowOutcome(
                idle_min_ms=window.min_ms,
                idle_max_ms=window.max_ms,
                created=tally.created,
                expired=tally.expired,
                returning=tally.returning,
                returning_remembered=tally.remembered,
                returning_share=tally.returning / tally.created,
                mean_keys=mean,
                peak_keys=peak,
                held_keys=tuple(held.tolist()),
                most_keys=most,
                mean_bytes=round(mean * bytes_per_key),
                most_bytes=round(most * bytes_per_key),
                is_censored=is_censored(window.max_ms, extent.span_ms),
            )
        )
    return found


def half_outcome(log: EventLog, windows: Sequence[Window]) -> tuple[HalfOutcome, ...]:
    """The figures of each window for half a log."""
    tallies = log.tallies(windows, log.extent.last_ms)
    return tuple(
        HalfOutcome(
            window.min_ms,
            window.max_ms,
            tally.returning / tally.created,
            _mean_keys(tally, log.extent),
        )
        for window, tally in zip(windows, tallies, strict=True)
    )


def _mean_keys(tally: LifeCounts, extent: Extent) -> float:
    # If all events have the same time, every key is live at that time.
    return tally.live_ms / extent.span_ms if extent.span_ms else float(tally.created)
