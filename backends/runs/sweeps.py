"""The history of sweeps: expiry without a write.

A row that a sweep closes stays in its run. It is expired if the history contains a sweep after the
run was written that found the row due under the sweep's own policy. So a later policy with longer
lives revives nothing, and expiring a million lives costs as much as expiring one. Only the farthest
sweep under a policy matters: there is one entry per policy as long as time does not go backwards,
and none once every run was written after it.
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
    """The part of a policy that decides when lives end; equal for policies that end all lives at
    the same times.
    """
    return replace(policy, time=TimeDomain.EVENT, remember_ms=None)


def timed(policy: Policy) -> Policy:
    """The policy used to index lives with their own times (`wakes`): even without a rule, they are
    due at these times.
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
    """The history with one more sweep; None adds nothing."""
    if to_ms is None or policy.is_unbounded:
        return sweeps
    newest = Sweep(ending(policy), to_ms, batch_id)
    kept = len(sweeps)
    while kept and sweeps[kept - 1].policy == newest.policy and sweeps[kept - 1].to_ms <= to_ms:
        kept -= 1
    return (*sweeps[:kept], newest)


def since(sweeps: Sweeps, batch_id: int) -> Sweeps:
    """The sweeps that apply to a run written in batch `batch_id`."""
    return tuple(sweep for sweep in sweeps if sweep.batch_id > batch_id)


def reached_ms(sweeps: Sequence[Sweep], policy: Policy, nothing_ms: int) -> int:
    """How far these sweeps got under a policy; `nothing_ms` if there were none."""
    alike = ending(policy)
    return max((each.to_ms for each in sweeps if each.policy == alike), default=nothing_ms)


def are_swept(sweeps: Sequence[Sweep], lives: Lives) -> Flags:
    """Which lives were closed by one of these sweeps."""
    gone = np.zeros(len(lives), dtype=bool)
    for sweep in sweeps:
        gone |= is_due(lives.due_ms(sweep.policy), sweep.to_ms)
    return gone
