"""Merges a policy's own fields with `defaults`, and checks the result.

A policy's fields override those of `defaults` one by one; `idle` counts as one field. The idle
window must be off, or have a min above 1 ms and a max that is at least `min_gap` larger. The gap
spreads out the removal of keys that became idle together.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from idlestate.config.idle_window import IdleWindow
from idlestate.config.pipeline_settings import PolicyBody
from idlestate.config.problems import FieldPath, Finding
from idlestate.retention.durations import format_duration
from idlestate.retention.policy import (
    MAX_SHRINK,
    MIN_GAP_MS,
    Policy,
    TimeDomain,
    UpdateType,
    is_too_narrow,
)

_RULES = ("idle", "ttl", "max_lifetime")


@dataclass(frozen=True, slots=True)
class Body:
    """A policy body as far as it could be read.

    Attributes:
        path: its path in the file.
        fields: the fields that are valid by themselves.
        raw: the content of the file.
    """

    path: FieldPath
    fields: PolicyBody
    raw: dict[str, object]

    def lost(self, *names: str) -> bool:
        """Whether one of these fields is in the file but could not be read."""
        read = self.fields.model_dump(by_alias=True, exclude_unset=True)
        return any(name in self.raw and name not in read for name in names)


def read_body(raw: object, path: FieldPath) -> Body:
    """The fields of a policy body that are valid by themselves; the others are left out."""
    if not isinstance(raw, dict):
        return Body(path, PolicyBody(), {})
    try:
        fields = PolicyBody.model_validate(raw)
    except ValidationError as error:
        bad = {details["loc"][0] for details in error.errors()}
        good = {name: value for name, value in raw.items() if name not in bad}
        fields = PolicyBody.model_validate(good)
    return Body(path, fields, raw)


@dataclass(frozen=True, slots=True)
class Merged:
    """A policy's fields over those of the defaults; either may be empty."""

    defaults: Body
    own: Body

    @property
    def fields(self) -> PolicyBody:
        """The fields in force; None where neither sets a value."""
        own = {name: getattr(self.own.fields, name) for name in self.own.fields.model_fields_set}
        return self.defaults.fields.model_copy(update=own)

    @property
    def time(self) -> TimeDomain | None:
        """The policy's time domain; None if it could not be read."""
        holder = self.own if "time" in self.own.raw else self.defaults
        return None if holder.lost("time") else self.fields.time or TimeDomain.EVENT

    @property
    def min_gap_ms(self) -> int:
        """The smallest allowed distance between idle min and max."""
        return MIN_GAP_MS if self.fields.min_gap_ms is None else self.fields.min_gap_ms

    def policy(self) -> Policy:
        """The policy in force.

        Raises:
            ValueError: `check` has findings.
        """
        fields = self.fields
        return Policy(
            idle_min_ms=fields.idle.min_ms if fields.idle else 0,
            idle_max_ms=fields.idle.max_ms if fields.idle else 0,
            update=fields.update or UpdateType.ON_CREATE_AND_WRITE,
            ttl_ms=fields.ttl_ms or 0,
            ttl_update=fields.ttl_update or UpdateType.ON_CREATE_AND_WRITE,
            max_lifetime_ms=fields.max_lifetime_ms or 0,
            time=fields.time or TimeDomain.EVENT,
            remember_ms=fields.remember_ms,
            min_gap_ms=self.min_gap_ms,
            max_shrink=MAX_SHRINK if fields.max_shrink is None else fields.max_shrink,
        )

    def check(self) -> Iterator[Finding]:
        """Contradictions between the fields."""
        yield from self._check_window()
        fields = self.fields
        bounded = (
            (fields.idle and not fields.idle.is_off) or fields.ttl_ms or fields.max_lifetime_ms
        )
        lost = self.own.lost(*_RULES) or self.defaults.lost(*_RULES)
        if "remember" in self.own.raw and self.own.path != ("defaults",) and not (bounded or lost):
            yield Finding(
                (*self.own.path, "remember"),
                "remember has no effect: this policy has no expiry rule",
                "remove it, or add idle, ttl or max_lifetime",
            )

    def _check_window(self) -> Iterator[Finding]:
        idle = self.fields.idle
        if idle is None or idle.is_off:
            return
        holder = self.own if self.own.fields.idle is not None else self.defaults
        is_window = isinstance(holder.raw.get("idle"), dict)
        path = (*holder.path, "idle")
        at_min, at_max = ((*path, "min"), (*path, "max")) if is_window else (path, path)
        low, high = format_duration(idle.min_ms), format_duration(idle.max_ms)
        gap_ms = self.min_gap_ms
        wide = format_duration(idle.min_ms + gap_ms)
        if idle.min_ms <= 1:
            why = f"min {low} turns the idle rule off, but max is {high}"
            fix = "use idle: never, or a larger min such as 30m"
            yield Finding(at_min, why, fix)
        elif idle.max_ms < idle.min_ms:
            what = f"max {high} is less than min {low}"
            yield Finding(at_max, what, f"use a max of at least {wide}")
        elif is_too_narrow(idle.min_ms, idle.max_ms, gap_ms):
            yield self._too_narrow(holder, idle, gap_ms)

    def _too_narrow(self, holder: Body, idle: IdleWindow, gap_ms: int) -> Finding:
        low, high = format_duration(idle.min_ms), format_duration(idle.max_ms)
        slack = format_duration(idle.max_ms - idle.min_ms)
        gap = format_duration(gap_ms)
        wide = format_duration(idle.min_ms + gap_ms)
        path = (*holder.path, "idle")
        if holder is not self.own and "min_gap" in self.own.raw:
            return Finding(
                (*self.own.path, "min_gap"),
                f"min_gap {gap} is more than the {slack} between min and max of defaults.idle",
                f"use at most {slack}, or give this policy its own idle window",
            )
        if isinstance(holder.raw.get("idle"), dict):
            return Finding(
                (*path, "max"),
                f"max {high} is only {slack} above min {low}, but min_gap is {gap}",
                f"use a max of at least {wide}, or add min_gap: {slack} next to idle",
            )
        return Finding(
            path,
            f"{low} means min {low} and max {high}, only {slack} apart, but min_gap is {gap}",
            f"add min_gap: {slack} next to idle, or use idle: {{min: {low}, max: {wide}}}",
        )
