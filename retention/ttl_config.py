"""Time to live of state: `StateTtlConfig`, with Flink's names and defaults."""

from dataclasses import InitVar, dataclass
from enum import StrEnum
from typing import Final

from idlestate.retention.durations import Duration, duration_of
from idlestate.retention.policy import FOREVER_MS, TimeDomain, UpdateType, member
from idlestate.retention.setting_error import SettingError, WrongTypeError

DEFAULT_PERIODIC_COMPACTION_MS: Final = 30 * 24 * 3600 * 1000
DEFAULT_QUERY_TIME_AFTER: Final = 1000


class StateVisibility(StrEnum):
    """Whether an expired value that is still stored is returned."""

    NEVER_RETURN_EXPIRED = "never_return_expired"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "return_expired_if_not_cleaned_up"


@dataclass(frozen=True, slots=True)
class IncrementalCleanup:
    """Heap: check up to `size` entries at every access, or also whenever a key is selected."""

    size: int = 5
    run_for_every_record: bool = False

    def __post_init__(self) -> None:
        whole = isinstance(self.size, int)
        if not (whole and self.size > 0):
            raise SettingError(
                f"incremental cleanup: size {self.size!r} is not valid; use at least 1"
            )


@dataclass(frozen=True, slots=True)
class CompactionCleanup:
    """RocksDB: drop expired values when files are compacted.

    Attributes:
        query_time_after: the clock is read again after this many entries.
        periodic: accesses to the state scan all of it once in this time, a bounded part each, so
            that expired values are removed without a call of `compact`: text such as `"30d"` or a
            `timedelta`, `"0s"` for never.
        periodic_ms: the same in int milliseconds; `periodic` sets it. 0 or less is never.
    """

    query_time_after: int = DEFAULT_QUERY_TIME_AFTER
    periodic_ms: int = DEFAULT_PERIODIC_COMPACTION_MS
    periodic: InitVar[Duration | None] = None

    def __post_init__(self, periodic: Duration | None) -> None:
        if periodic is not None:
            object.__setattr__(self, "periodic_ms", duration_of("periodic", periodic))
        for name in ("query_time_after", "periodic_ms"):
            if not isinstance(getattr(self, name), int):
                raise WrongTypeError(
                    f"compaction cleanup: {name} is {getattr(self, name)!r}; pass an int"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTtlConfig:
    """Time to live of each value, list element or map entry of one state.

    Attributes:
        ttl: how long they live: text such as `"1h"` or a `timedelta`, at least 1 ms.
        ttl_ms: the same in int milliseconds; `ttl` sets it.
        update_type: what renews the timestamp. This, the visibility and the time may be text, such
            as `"on_read_and_write"`.
        visibility: whether expired values that are still stored are returned.
        time: the time with which values are stamped and expire. Flink has only processing time.
        full_snapshot: leave expired values out of snapshots.
        incremental: cleanup on heap; None uses the default if cleanup runs in background.
        compaction: cleanup in RocksDB; None uses the default if cleanup runs in background.
        cleanup_in_background: whether the two above have defaults. Strategies that you set apply
            regardless.
    """

    ttl: InitVar[Duration | None] = None
    ttl_ms: int = 0
    update_type: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    visibility: StateVisibility = StateVisibility.NEVER_RETURN_EXPIRED
    time: TimeDomain = TimeDomain.PROCESSING
    full_snapshot: bool = False
    incremental: IncrementalCleanup | None = None
    compaction: CompactionCleanup | None = None
    cleanup_in_background: bool = True

    def __post_init__(self, ttl: Duration | None) -> None:
        if ttl is not None:
            object.__setattr__(self, "ttl_ms", duration_of("ttl", ttl))
        whole = isinstance(self.ttl_ms, int)  # a caller without types may pass 0.5
        if not (whole and 0 < self.ttl_ms <= FOREVER_MS):
            raise SettingError(
                f"ttl of {self.ttl_ms!r} ms is not valid; use at least 1ms, such as ttl='1h'"
            )
        for name, kind, wanted in (
            ("incremental", IncrementalCleanup | None, "an IncrementalCleanup or None"),
            ("compaction", CompactionCleanup | None, "a CompactionCleanup or None"),
        ):
            if not isinstance(getattr(self, name), kind):
                raise WrongTypeError(f"{name} is {getattr(self, name)!r}; pass {wanted}")
        object.__setattr__(self, "update_type", member("update_type", self.update_type, UpdateType))
        visibility = member("visibility", self.visibility, StateVisibility)
        object.__setattr__(self, "visibility", visibility)
        object.__setattr__(self, "time", member("time", self.time, TimeDomain))

    @property
    def updates_on_read(self) -> bool:
        """Whether reading a live value renews it."""
        return self.update_type is UpdateType.ON_READ_AND_WRITE

    @property
    def returns_expired(self) -> bool:
        """Whether expired values that are still stored are returned."""
        return self.visibility is StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP

    @property
    def incremental_in_force(self) -> IncrementalCleanup | None:
        """The incremental cleanup that runs on heap, None for none."""
        return self.incremental or (IncrementalCleanup() if self.cleanup_in_background else None)

    @property
    def compaction_in_force(self) -> CompactionCleanup | None:
        """The cleanup that runs in compactions of RocksDB, None for none."""
        return self.compaction or (CompactionCleanup() if self.cleanup_in_background else None)
