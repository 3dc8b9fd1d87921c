"""Lives of several keys at once."""

import numpy as np

from idlestate.retention.lives import Accesses, Lives, walk
from idlestate.retention.policy import Policy
from idlestate.retention.rules import NEVER_MS


def test_a_late_record_counts_at_the_time_that_its_life_has_seen() -> None:
    """Also where it is the only one of its key, and the keys beside it have none."""
    never = np.full(1, NEVER_MS)
    old = Lives(np.array([10]), np.array([100]), never, never)
    accesses = Accesses(np.array([1, 1]), np.array([50, 500]), None)
    found = walk(accesses, old, np.array([True, False]), Policy())
    assert found.lives.created_at_ms.tolist() == [10, 500]
    assert found.lives.written_at_ms.tolist() == [100, 500]
