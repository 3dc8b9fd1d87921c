"""What sweeps closed: expiry without a write.

A row that a sweep closes stays in its run. It is gone because a sweep is remembered that came
after the run was written, and that under its own policy found the row due. So a policy that grants
longer lives later revives nothing, and forgetting a million lives costs as much as forgetting one.

Of sweeps under one policy the farthest says it all: there is one entry per policy as long as time
does not run back, and none once every run was written after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from idlestate.retention.lives import Lives
from idlestate.retention.policy import FOREVER_MS, Policy, TimeDomain
from idlestate.retention.rules import is_due

Flags = npt.NDArray[np.bool_]


@lru_cache(maxsize=64)
def ending(policy: Policy) -> Policy:
    """What of a policy decides when lives end; equal for policies that end every life alike."""
    return replace(policy, time=TimeDomain.EVENT, remember_ms=None)


def timed(policy: Policy) -> Policy:
    """The policy by which lives with times of their own (`wakes`) are indexed: one without a rule
    ends none, but they have their times.
    """
    return replace(policy, max_lifetime_ms=FOREVER_MS) if policy.is_unbounded else policy


@dataclass(frozen=True, slots=True)
class Sweep:
    """Every life with a deadline <= `to_ms` under `policy` was closed in batch `batch_id`."""

    policy: Policy
    to_ms: int
    batch_id: int


Sweeps = tuple[Sweep, ...]


def with_sweep(sweeps: Sweeps, policy: Policy, to_ms: int | None, batch_id: int) -> Sweeps:
    """The history with one more sweep (None: there was none)."""
    if to_ms is None or policy.is_unbounded:
        return sweeps
    newest = Sweep(ending(policy), to_ms, batch_id)
    kept = len(sweeps)
    while kept and sweeps[kept - 1].policy == newest.policy and sweeps[kept - 1].to_ms <= to_ms:
        kept -= 1
    return (*sweeps[:kept], newest)


def since(sweeps: Sweeps, batch_id: int) -> Sweeps:
    """The sweeps that a run written in batch `batch_id` went through."""
    return tuple(sweep for sweep in sweeps if sweep.batch_id > batch_id)


def reached_ms(sweeps: Sequence[Sweep], policy: Policy, nothing_ms: int) -> int:
    """How far these sweeps got under a policy; `nothing_ms` when there was none."""
    alike = ending(policy)
    return max((each.to_ms for each in sweeps if each.policy == alike), default=nothing_ms)


def are_swept(sweeps: Sequence[Sweep], lives: Lives) -> Flags:
    """Which lives one of these sweeps closed."""
    gone = np.zeros(len(lives), dtype=bool)
    for sweep in sweeps:
        gone |= is_due(lives.due_ms(sweep.policy), sweep.to_ms)
    return gone
