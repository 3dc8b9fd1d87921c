"""The windows at which a log reaches a share of returning keys, or a number of live keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from idlestate.advisor.bisection import first_true
from idlestate.advisor.censored_windows import is_censored
from idlestate.advisor.event_log import EventLog
from idlestate.advisor.window_ladder import Window
from idlestate.advisor.window_outcome import WindowOutcome

RETURNING_SHARES = (0.05, 0.01)
_SECOND_MS = 1000
_SHARES_AT_ONCE = 400
_PEAKS_AT_ONCE = 40  # each takes several questions


@dataclass(frozen=True, slots=True)
class ReturningTarget:
    """The smallest window, in whole seconds, for a share of returning keys.

    Attributes:
        share: returning lives among all lives, at most.
        window_ms: the window.
        is_censored: it is longer than a third of the log.
    """

    share: float
    window_ms: int
    is_censored: bool


@dataclass(frozen=True, slots=True)
class KeyBudget:
    """The longest window, in whole seconds, for a number of live keys.

    Attributes:
        keys: live keys at any time, or held after any batch, at most.
        window_ms: the window; None if even 1 second takes more keys, or if all keys fit.
        all_fit: whether no window is needed, because the log has no more keys than that.
    """

    keys: int
    window_ms: int | None
    all_fit: bool


def returning_targets(log: EventLog) -> tuple[ReturningTarget, ...]:
    """The smallest window for each of `RETURNING_SHARES`."""
    extent = log.extent
    found = []
    for share in RETURNING_SHARES:

        def holds(seconds: Sequence[int], share: float = share) -> list[bool]:
            windows = [Window.single(each * _SECOND_MS) for each in seconds]
            tallies = log.tallies(windows, extent.last_ms)
            return [tally.returning <= share * tally.created for tally in tallies]

        # No gap is longer than the log, so no key returns after a longer window.
        window_ms = (
            first_true(holds, 0, extent.span_ms // _SECOND_MS + 1, _SHARES_AT_ONCE) * _SECOND_MS
        )
        found.append(ReturningTarget(share, window_ms, is_censored(window_ms, extent.span_ms)))
    return tuple(found)


def key_budget(
    keys: int,
    log: EventLog,
    most_keys: Callable[[Sequence[Window]], Sequence[int]],
    known: Sequence[WindowOutcome],
) -> KeyBudget:
    """The longest window for a number of keys.

    Args:
        keys: the number.
        log: the log.
        most_keys: the most keys under each window.
        known: figures that were already computed.
    """
    if log.extent.keys <= keys:
        return KeyBudget(keys, None, all_fit=True)

    def exceeds(seconds: Sequence[int]) -> list[bool]:
        return [
            most > keys
            for most in most_keys([Window.single(each * _SECOND_MS) for each in seconds])
        ]

    single = [each for each in known if each.window.is_single]
    fits = [each.idle_min_ms // _SECOND_MS for each in single if each.most_keys <= keys]
    over = [-(-each.idle_min_ms // _SECOND_MS) for each in single if each.most_keys > keys]
    # A window longer than the log keeps every key.
    beyond = log.extent.span_ms // _SECOND_MS + 2
    first = first_true(exceeds, max([0, *fits]), min([beyond, *over]), _PEAKS_AT_ONCE)
    return KeyBudget(keys, (first - 1) * _SECOND_MS or None, all_fit=False)
