"""A retention policy: the expiry rules of one operator.

A policy contains its spans as plain numbers. `idlestate.config` reads files with defaults and
selectors; `idlestate.retention.rules` applies the rules.
"""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from idlestate.retention.durations import Duration, duration_of, format_duration
from idlestate.retention.setting_error import SettingError

FOREVER_MS = 2**63 - 1
"""A span or a time that never comes: the largest int64, in milliseconds."""

MIN_GAP_MS = 300_000
"""The least distance of an idle window's max from its min, unless it is lowered explicitly."""

MAX_SHRINK = 0.5
"""The default of the largest share of an operator's live keys that a policy change may remove at
once.
"""

JSON_VERSION = 1

_Word = TypeVar("_Word", bound=StrEnum)


class UpdateType(StrEnum):
    """Which accesses count: creation and writes, or reads too."""

    ON_CREATE_AND_WRITE = "on_create_and_write"
    ON_READ_AND_WRITE = "on_read_and_write"


class TimeDomain(StrEnum):
    """Which time the rules use: that of the events, or the time at which a batch is processed."""

    EVENT = "event"
    PROCESSING = "processing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The expiry rules of one operator. Without arguments, keys never expire.

    Durations are text as in policy files (`"30m"`, `"1h30m"`) or `timedelta`. Each sets the
    attribute of the same name with `_ms`: int milliseconds, 0 if the rule is off.

    Args:
        idle_min: an idle key lives at least this long after its last access. The idle rule is on
            iff this is above 1 ms.
        idle_max: an idle key lives at most this long after its last access; at least the min.
        update: the accesses that count for the idle rule.
        ttl: a life ends this long after its last write.
        ttl_update: whether `ttl` also counts from the last read.
        max_lifetime: a life ends this long after its creation, regardless of accesses.
        time: event or processing time. This and the updates may be text, such as `"processing"`.
        remember: how long an expired key is remembered, so that it counts as returning if it comes
            back; `"forever"` never forgets it. Default: `remember_for_ms`.
        min_gap: the minimum of `idle_max` - `idle_min`; default 5 minutes. Keys that became idle
            together expire spread over this gap. Policies that differ only in it are equal.
        max_shrink: a change to this policy is refused if it would remove more than this share of
            an operator's live keys at once, 0 to 1; default 0.5. Policies that differ only in it
            are equal.

    Raises:
        DurationError: a duration is not valid.
        SettingError: the max is below the min or closer to it than `min_gap`, a number of
            milliseconds is not an int from 0 to `FOREVER_MS`, `max_shrink` is not from 0 to 1, or
            a word is not a member of its enum.
    """

    idle_min: InitVar[Duration | None] = None
    idle_max: InitVar[Duration | None] = None
    ttl: InitVar[Duration | None] = None
    max_lifetime: InitVar[Duration | None] = None
    remember: InitVar[Duration | None] = None
    min_gap: InitVar[Duration | None] = None
    idle_min_ms: int = 0
    idle_max_ms: int = 0
    update: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    ttl_ms: int = 0
    ttl_update: UpdateType = UpdateType.ON_CREATE_AND_WRITE
    max_lifetime_ms: int = 0
    time: TimeDomain = TimeDomain.EVENT
    remember_ms: int | None = None
    min_gap_ms: int = field(default=MIN_GAP_MS, compare=False, repr=False)
    max_shrink: float = field(default=MAX_SHRINK, compare=False, repr=False)
    chosen_by: str = field(default="", compare=False, repr=False)
    """What selected this policy for an operator, for people, such as a selector of a file."""

    def __post_init__(
        self,
        idle_min: Duration | None,
        idle_max: Duration | None,
        ttl: Duration | None,
        max_lifetime: Duration | None,
        remember: Duration | None,
        min_gap: Duration | None,
    ) -> None:
        given = {
            "idle_min": idle_min,
            "idle_max": idle_max,
            "ttl": ttl,
            "max_lifetime": max_lifetime,
            "remember": remember,
            "min_gap": min_gap,
        }
        for name, value in given.items():
            if value is not None:
                object.__setattr__(self, f"{name}_ms", _span_ms(name, value))
        _require_span("idle_min_ms", self.idle_min_ms)
        _require_span("idle_max_ms", self.idle_max_ms)
        _require_span("ttl_ms", self.ttl_ms)
        _require_span("max_lifetime_ms", self.max_lifetime_ms)
        _require_span("min_gap_ms", self.min_gap_ms)
        if self.remember_ms is not None:
            _require_span("remember_ms", self.remember_ms)
        if self.idle_max_ms < self.idle_min_ms:
            raise SettingError(self._max_below_min())
        if is_too_narrow(self.idle_min_ms, self.idle_max_ms, self.min_gap_ms):
            low, high = format_duration(self.idle_min_ms), format_duration(self.idle_max_ms)
            raise SettingError(
                f"idle_max {high} is only {format_duration(self.idle_max_ms - self.idle_min_ms)} "
                f"above idle_min {low}, but min_gap is {format_duration(self.min_gap_ms)}; use "
                f"idle_max={format_duration(self.idle_min_ms + self.min_gap_ms)!r}, or lower "
                "min_gap"
            )
        _require_share("max_shrink", self.max_shrink)
        object.__setattr__(self, "update", member("update", self.update, UpdateType))
        object.__setattr__(self, "ttl_update", member("ttl_update", self.ttl_update, UpdateType))
        object.__setattr__(self, "time", member("time", self.time, TimeDomain))

    def _max_below_min(self) -> str:
        low, high = format_duration(self.idle_min_ms), format_duration(self.idle_max_ms)
        gap_ms = self.min_gap_ms if self.idle_on else 0
        least = format_duration(self.idle_min_ms + gap_ms)
        if not self.idle_max_ms:
            return f"idle_max is missing; idle_min={low!r} needs idle_max={least!r} or more"
        return f"idle_max {high} is less than idle_min {low}; use at least {least}"

    @property
    def idle_on(self) -> bool:
        """Whether the idle rule ends lives: iff the min is above 1 ms."""
        return _is_on(self.idle_min_ms)

    @property
    def is_unbounded(self) -> bool:
        """Whether nothing ever ends a life, so that state grows with every new key."""
        return not (self.idle_on or self.ttl_ms or self.max_lifetime_ms)

    @property
    def remember_for_ms(self) -> int:
        """How long an ended life is remembered, in milliseconds.

        `remember_ms` if set, else the idle max, else the ttl, else the lifetime, each if its rule
        is on; 0 for an unbounded policy, under which no life ends.
        """
        if self.remember_ms is not None:
            return self.remember_ms
        return (self.idle_max_ms if self.idle_on else 0) or self.ttl_ms or self.max_lifetime_ms

    def with_ttl_alone(self, ttl_ms: int, chosen_by: str) -> "Policy":
        """A policy with the same time domain, whose only rule is a time to live since the last
        write.

        A ttl of 0 milliseconds means that no life ends.
        """
        return Policy(
            ttl_ms=ttl_ms,
            time=self.time,
            remember_ms=self.remember_ms,
            max_shrink=self.max_shrink,
            chosen_by=chosen_by,
        )

    def to_json(self) -> dict[str, object]:
        """The policy as a dict that can be written as JSON; `from_json` is its inverse.

        It omits `min_gap_ms` and `max_shrink`, which are checked when a policy is created or
        changed, and `chosen_by`, which callers store separately.
        """
        return {
            "version": JSON_VERSION,
            "idle_min_ms": self.idle_min_ms,
            "idle_max_ms": self.idle_max_ms,
            "update": self.update.value,
            "ttl_ms": self.ttl_ms,
            "ttl_update": self.ttl_update.value,
            "max_lifetime_ms": self.max_lifetime_ms,
            "time": self.time.value,
            "remember_ms": self.remember_ms,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "Policy":
        """Read the result of `to_json`.

        Raises:
            SettingError: the version differs, a field is missing or unknown, or the policy refuses
                a value.
        """
        version = data.get("version")
        if type(version) is not int or version != JSON_VERSION:
            raise SettingError(
                f"policy version {version!r} is not supported (supported: {JSON_VERSION}); use the "
                "version of idlestate that wrote it"
            )
        expected = cls().to_json().keys()
        missing = sorted(expected - data.keys())
        unknown = sorted(str(name) for name in data.keys() - expected)
        if missing:
            raise SettingError(f"a policy lacks {', '.join(missing)}")
        if unknown:
            raise SettingError(f"a policy has the unknown {', '.join(unknown)}")
        fields = {name: value for name, value in data.items() if name != "version"}
        return cls(min_gap_ms=0, **fields)  # type: ignore[arg-type]  # __post_init__ checks every value


Policies = tuple[Policy, Policy]
"""The policies of two inputs, or an operator's policy twice."""


def of_sides(policy: Policy, right: Policy | None) -> Policies:
    """The policies of left and right rows of a join; for other operators, their policy twice."""
    return policy, right or policy


def right_policy(written: Mapping[str, Any]) -> Policy | None:
    """The policy of a join's right rows, from the stored field `right`."""
    facts = written.get("right")
    return None if facts is None else Policy.from_json(facts)


def is_too_narrow(idle_min_ms: int, idle_max_ms: int, min_gap_ms: int) -> bool:
    """Whether an idle window that is on has less than `min_gap_ms` between its min and max."""
    return _is_on(idle_min_ms) and idle_max_ms - idle_min_ms < min_gap_ms


def _is_on(idle_min_ms: int) -> bool:
    return idle_min_ms > 1


def _span_ms(name: str, value: Duration) -> int:
    if name == "remember" and value == "forever":
        return FOREVER_MS
    return duration_of(name, value)


def _require_share(name: str, value: object) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise SettingError(f"{name} must be a share from 0 to 1, such as 0.5, not {value!r}")


def _require_span(name: str, value: object) -> None:
    if type(value) is not int or not 0 <= value <= FOREVER_MS:
        raise SettingError(
            f"{name} must be an int from 0 to {FOREVER_MS} milliseconds, not {value!r}"
        )


def member(name: str, value: object, kind: type[_Word]) -> _Word:
    """The enum member for an argument, which is a member or its text.

    Raises:
        SettingError: it is neither.
    """
    if not isinstance(value, str) or value not in set(kind):
        words = ", ".join(kind)
        raise SettingError(f"{name} must be one of {words}, not {value!r}")
    return kind(value)
