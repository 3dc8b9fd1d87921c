"""Early results of windows: updates that wait until a window's end, instead of one per batch.

A window is shown from its *showing time* on: when the watermark plus `TableSpec.shows_ahead_ms`
reaches its deadline. The first batch with data after that shows it, whether the batch changes it or
not; from then on, each batch that changes it does. Without `shows_ahead_ms` every batch shows the
windows that it changes.

A shard's record remembers its last showing time, so that a window is first shown once.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.sweeps import with_sweep
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy
from idlestate.retention.rules import saturating_add

Ints = npt.NDArray[np.int64]


def showing_time_ms(spec: TableSpec, watermark_ms: int | None) -> int | None:
    """How far windows are shown at a watermark (ms); None: all of them are."""
    if spec.shows_ahead_ms is None or watermark_ms is None:
        return None
    shown_ms: int = saturating_add(watermark_ms, spec.shows_ahead_ms)
    return shown_ms


def first_shown(
    current: Runs,
    policy: Policy,
    before_ms: int,
    showing_ms: int,
    batch_id: int,
    besides: Ints,
) -> Ints:
    """Positions of open windows whose first result is due.

    Args:
        current: the open windows.
        policy: their policy.
        before_ms: the last showing time.
        showing_ms: this one.
        batch_id: the batch's number.
        besides: positions of those that the batch changes or closes.
    """
    # Those that were shown are passed over as those that a sweep closed.
    rest = replace(current, sweeps=with_sweep(current.sweeps, policy, before_ms, batch_id))
    return rest.due(policy, showing_ms, besides)
