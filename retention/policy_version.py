"""A version of an operator's policy, and when it applies."""

from dataclasses import dataclass

from idlestate.retention.policy import Policies, Policy, of_sides


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A policy and the batch time (ms) from which it applies."""

    version: int
    effective_ms: int
    policy: Policy
    right: Policy | None = None
    """For a join, the policy of right rows; `policy` is that of left rows."""

    @property
    def of_sides(self) -> Policies:
        """See `idlestate.retention.policy.of_sides`."""
        return of_sides(self.policy, self.right)
