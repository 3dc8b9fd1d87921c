"""The advice about a log."""

from dataclasses import asdict, dataclass
from typing import Any

from idlestate.advisor.event_log import Extent
from idlestate.advisor.knee import Knee
from idlestate.advisor.suggested_policy import SuggestedPolicy
from idlestate.advisor.targets import KeyBudget, ReturningTarget
from idlestate.advisor.window_outcome import HalfOutcome, WindowOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """One half of a log, divided by rows and analyzed like a whole log.

    Attributes:
        extent: the size of the half.
        windows: the figures of the same windows.
        knee: its knee.
        targets: its smallest windows for shares of returning keys.
    """

    extent: Extent
    windows: tuple[HalfOutcome, ...]
    knee: Knee
    targets: tuple[ReturningTarget, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Idle windows for a log of events.

    Attributes:
        key: the key columns.
        event_time: the column of event times.
        extent: how large the log is.
        rejected_rows: rows without a usable event time, or without a key if null keys are rejected.
        late_rows: rows that a job with these batches and this delay drops as late.
        bytes_per_key: bytes of state per live key.
        windows: the figures of each window, ascending.
        knee: the window beyond which longer windows gain little, or none.
        targets: the smallest windows for 5 % and 1 % returning keys.
        key_budget: the longest window for the key budget; None without one.
        policy: a policy for a configuration file; None if the log is too short to suggest one.
        policy_bounds: figures for windows of the policy's min and of its max; the figures of the
            policy are between them.
        halves: the first and the second half of the log; empty if it cannot be divided.
    """

    key: tuple[str, ...]
    event_time: str
    extent: Extent
    rejected_rows: int
    late_rows: int
    bytes_per_key: float
    windows: tuple[WindowOutcome, ...]
    knee: Knee
    targets: tuple[ReturningTarget, ...]
    key_budget: KeyBudget | None
    policy: SuggestedPolicy | None
    policy_bounds: tuple[WindowOutcome, ...]
    halves: tuple[Half, ...]

    def to_json(self) -> dict[str, Any]:
        """The advice as a dict that can be written as JSON."""
        return asdict(self)
