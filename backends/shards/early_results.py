"""Early results of windows: updates that wait until a window's end, instead of one per batch.

A window becomes visible once the newest record is `TableSpec.fire_after_ms` past its end. The next
batch with data shows it, whether or not the batch changes it; after that, every batch that changes
it does. Without `fire_after_ms`, every batch shows the windows that it changes.

The newest record is that of earlier batches. It cannot be derived from the watermark: after `delay`
changes, the watermark reflects the old delay for some time. So a shard's record stores its time,
and how far windows have been shown, so that a window is shown for the first time only once.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.sweeps import with_sweep
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy
from idlestate.retention.rules import NEVER_MS

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Showing:
    """Which windows a batch shows."""

    before_ms: int
    """Windows up to this deadline were shown before."""
    upto_ms: int
    """Windows up to this deadline are shown."""


def showing(spec: TableSpec, before_ms: int, newest_ms: int) -> Showing | None:
    """The windows that a batch with data shows; None: all windows that it changes.

    Args:
        spec: what the operator is.
        before_ms: how far windows were shown last.
        newest_ms: the highest event time of the batches before.
    """
    if spec.fire_after_ms is None:
        return None
    # As far as a watermark that lags by `fire_after` plus one millisecond.
    return Showing(before_ms, max(newest_ms - spec.fire_after_ms - 1, NEVER_MS))


def first_shown(
    current: Runs, policy: Policy, showing: Showing, batch_id: int, besides: Ints
) -> Ints:
    """Positions of open windows whose first result is due.

    Args:
        current: the open windows.
        policy: their policy.
        showing: which windows the batch shows.
        batch_id: the batch's number.
        besides: positions of windows that the batch changes or closes.
    """
    # Windows already shown are skipped like windows that a sweep closed.
    rest = replace(current, sweeps=with_sweep(current.sweeps, policy, showing.before_ms, batch_id))
    return rest.due(policy, showing.upto_ms, besides)
