"""The idle window of a policy in a configuration file: `{min: 30m, max: 45m}`, or one duration."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from idlestate.config import time_kinds as times
from idlestate.config.field_kinds import refuse
from idlestate.config.section import Section
from idlestate.retention.shown_values import show


class IdleWindow(Section):
    """How long an idle key lives after its last access; 0 and 0 turn the rule off."""

    min_ms: times.IdleEdge = Field(alias="min", examples=["30m"])
    """An idle key lives at least this long."""
    max_ms: times.IdleEdge = Field(alias="max", examples=["45m"])
    """An idle key lives at most this long. Must be at least min + min_gap."""

    @property
    def is_off(self) -> bool:
        """Whether the idle rule is off."""
        return self.min_ms == 0 and self.max_ms == 0


def _read_idle(value: object) -> object:
    """Return a mapping unchanged; turn one duration into a window with max = 1.5 * min."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        raise refuse(f"expected a duration, found {show(value)}", "use {min: 30m, max: 45m}")
    min_ms = times.read_idle_text(value)
    return IdleWindow.model_construct(min_ms=min_ms, max_ms=min_ms * 3 // 2)


Idle = Annotated[
    IdleWindow,
    BeforeValidator(_read_idle, json_schema_input_type=times.IdleText | IdleWindow),
]
