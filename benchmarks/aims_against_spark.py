"""Aims: how many times its peer a contestant should be, and how fast keys should be forgotten."""

from dataclasses import dataclass

from contestants import (
    ASOF_ROW,
    DROP_DUPLICATES,
    GROUP_BY,
    PROCESS_ROW,
    RETAIN_DELAYED,
    SESSION_WINDOW,
    SPARK_JOIN_4,
    TTL,
    WINDOW,
    Contestant,
)
from jobs import (
    ASOF,
    BY_WINDOW,
    CHURN,
    DEDUPLICATION,
    HOLD_SUITES,
    INTERVAL,
    NOTHING_DUE,
    SESSION,
    TUMBLING,
    WITHIN,
    Job,
)

FORGET_MS = 1000
"""Forgetting half a million keys, their expire rows included."""
SPARSE_GROWTH = 1.5
"""Time and bytes of a sparse batch on the largest state, times those on the smallest."""
SPACE = 1.5
"""Rows named by the newest version, per open life."""
EXECUTOR_PROCESSOR = 1.18
"""Processor time per row on two executors, times that on one."""
EXECUTOR_SHARE = 0.1
"""How far rows and bytes of one executor may be from those of the other."""
DENSE = 1.1
"""Time of a dense batch, times that with one run per shard."""


@dataclass(frozen=True, slots=True)
class Aim:
    """A ratio to a peer on the same input."""

    peer: Contestant
    times: float


AIMS = {
    ("uniform", NOTHING_DUE): Aim(GROUP_BY, 4.0),
    ("zipf", NOTHING_DUE): Aim(GROUP_BY, 1.4),
    ("uniform", CHURN): Aim(GROUP_BY, 2.5),
    ("zipf", CHURN): Aim(GROUP_BY, 1.0),
    ("small-uniform", NOTHING_DUE): Aim(TTL, 25.0),
    ("small-zipf", NOTHING_DUE): Aim(TTL, 12.0),
    ("batch-25000", NOTHING_DUE): Aim(GROUP_BY, 1.0),
    ("batch-1000", NOTHING_DUE): Aim(GROUP_BY, 0.5),
    ("sparse-middle", NOTHING_DUE): Aim(TTL, 5.0),
    ("functions-uniform-100000", NOTHING_DUE): Aim(PROCESS_ROW, 20.0),
    ("functions-zipf-100000", NOTHING_DUE): Aim(PROCESS_ROW, 10.0),
    ("functions-uniform-25000", NOTHING_DUE): Aim(PROCESS_ROW, 4.0),
    **{(suite, NOTHING_DUE): Aim(RETAIN_DELAYED, 0.8) for suite in HOLD_SUITES},
    (DEDUPLICATION, WITHIN): Aim(DROP_DUPLICATES, 2.5),
    (SESSION, BY_WINDOW): Aim(SESSION_WINDOW, 3.0),
    (TUMBLING, BY_WINDOW): Aim(WINDOW, 2.0),
    (INTERVAL, WITHIN): Aim(SPARK_JOIN_4, 4.0),
    (ASOF, NOTHING_DUE): Aim(ASOF_ROW, 20.0),
}

SIDECAR_AIMS = {
    ("uniform", "retain-rocksdb"): Aim(GROUP_BY, 2.0),
    ("uniform", "retain-heap"): Aim(GROUP_BY, 3.0),
}
"""State outside of the query pays for the way there and back."""


def aim_of(job: Job) -> Aim | None:
    """What a job should reach."""
    outside = SIDECAR_AIMS.get((job.suite, job.contestant.name))
    return outside or AIMS.get((job.suite, job.case))
