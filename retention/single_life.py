"""The life of one key, access by access, for code that must run between two accesses.

This is the rule of `retention.lives.walk`, with which tests compare it; numbers are plain ints. A
life that ends at `deadline_ms` has ended for a record at that time.
"""

from idlestate.retention.policy import FOREVER_MS, Policy, UpdateType
from idlestate.retention.rules import NEVER_MS, Reason


class SingleLife:
    """The current life; `begin` and `resume` replace it.

    Attributes:
        created_at_ms, written_at_ms, read_at_ms, armed_at_ms: as in `Lives`.
        deadline_ms: when it ends; may be past `FOREVER_MS`.
    """

    __slots__ = (
        *("_arm_from_ms", "_cleanup_at_ms", "_idle_max_ms", "_idle_min_ms", "_lifetime_ms"),
        *("_reads_arm", "_reads_extend", "_ttl_ms", "armed_at_ms", "created_at_ms"),
        *("deadline_ms", "read_at_ms", "written_at_ms"),
    )

    def __init__(self, policy: Policy) -> None:
        """Start without a life, under this policy."""
        off = FOREVER_MS
        self._idle_min_ms = policy.idle_min_ms if policy.idle_on else -1
        self._idle_max_ms = policy.idle_max_ms
        self._ttl_ms = policy.ttl_ms or off
        self._lifetime_ms = policy.max_lifetime_ms or off
        self._reads_arm = policy.update is UpdateType.ON_READ_AND_WRITE
        self._reads_extend = policy.ttl_update is UpdateType.ON_READ_AND_WRITE
        self.created_at_ms = self.written_at_ms = self.read_at_ms = self.armed_at_ms = NEVER_MS
        self._cleanup_at_ms = self.deadline_ms = off
        # As in `LifeLayout`: the cleanup time, or `NEVER_MS` where every access arms.
        self._arm_from_ms = NEVER_MS

    def begin(self, t_ms: int) -> None:
        """Apply a write without an open life."""
        self.created_at_ms, self.read_at_ms, self.armed_at_ms = t_ms, NEVER_MS, NEVER_MS
        self._arm_from_ms, self._cleanup_at_ms = NEVER_MS, FOREVER_MS
        self.write(t_ms)

    def resume(
        self, created_at_ms: int, written_at_ms: int, read_at_ms: int, armed_at_ms: int,
        cleanup_at_ms: int, deadline_ms: int,
    ) -> None:  # fmt: skip
        """Load a life from the table, with its ends under the policy."""
        self.created_at_ms, self.written_at_ms = created_at_ms, written_at_ms
        self.read_at_ms, self.armed_at_ms = read_at_ms, armed_at_ms
        self._cleanup_at_ms, self.deadline_ms = cleanup_at_ms, deadline_ms
        self._arm_from_ms = NEVER_MS if armed_at_ms == NEVER_MS else cleanup_at_ms

    def times_ms(self) -> tuple[int, int, int, int, int, int]:
        """Its times, as `resume` takes them."""
        return (
            *(self.created_at_ms, self.written_at_ms, self.read_at_ms, self.armed_at_ms),
            *(self._cleanup_at_ms, self.deadline_ms),
        )

    def write(self, t_ms: int) -> None:
        """Apply a write that is not earlier than any previous access."""
        self.written_at_ms = t_ms
        if self._idle_min_ms >= 0 and t_ms + self._idle_min_ms > self._arm_from_ms:
            self.armed_at_ms = t_ms
            self._arm_from_ms = self._cleanup_at_ms = t_ms + self._idle_max_ms
        end_ms = t_ms + self._ttl_ms
        # Not min(): this runs for every record.
        if end_ms > self._cleanup_at_ms:  # noqa: PLR1730
            end_ms = self._cleanup_at_ms
        last_ms = self.created_at_ms + self._lifetime_ms
        self.deadline_ms = end_ms if end_ms < last_ms else last_ms

    def read(self, t_ms: int) -> None:
        """Apply a read of the open life that is not earlier than any previous access."""
        self.read_at_ms = t_ms
        if (
            self._reads_arm
            and self._idle_min_ms >= 0
            and t_ms + self._idle_min_ms > self._arm_from_ms
        ):
            self.armed_at_ms = t_ms
            self._arm_from_ms = self._cleanup_at_ms = t_ms + self._idle_max_ms
        base_ms = t_ms if self._reads_extend else self.written_at_ms
        self.deadline_ms = min(
            base_ms + self._ttl_ms, self._cleanup_at_ms, self.created_at_ms + self._lifetime_ms
        )

    @property
    def reason(self) -> Reason:
        """The reason for which it ends at its deadline."""
        if self._lifetime_ms < FOREVER_MS and self.deadline_ms == (
            self.created_at_ms + self._lifetime_ms
        ):
            return Reason.LIFETIME
        base_ms = self.written_at_ms
        if self._reads_extend and self.read_at_ms > base_ms:
            base_ms = self.read_at_ms
        if self._ttl_ms < FOREVER_MS and self.deadline_ms == base_ms + self._ttl_ms:
            return Reason.TTL
        return Reason.IDLE
