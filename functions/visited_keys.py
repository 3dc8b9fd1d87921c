"""The keys that a function visits: their data before and after."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from idlestate.functions.function_context import Timers
from idlestate.retention.rules import Reason


@dataclass(frozen=True, slots=True)
class KeysToVisit:
    """k keys with their lives, and n records, of which `counts[i]` belong to key i.

    Attributes:
        lives: created, written, read, armed, cleanup time and deadline (ms); None without a life.
        contents: the content of each key, per state.
        timers: each key's timers; None without one.
    """

    keys: Sequence[Any]
    counts: Sequence[int]
    rows: Iterator[Any]
    times_ms: Iterator[int]
    are_reads: Iterator[bool] | None
    lives: Sequence[tuple[int, int, int, int, int, int] | None]
    contents: Sequence[Sequence[Any]]
    timers: Sequence[Timers | None]


@dataclass(slots=True)
class Visited:
    """The keys after the visit; `kept` contains the numbers of keys with an open life."""

    kept: list[int] = field(default_factory=list)
    lives: list[tuple[int, int, int, int]] = field(default_factory=list)
    contents: list[list[Any]] = field(default_factory=list)
    timers: list[Timers] = field(default_factory=list)
    wakes_at_ms: list[int] = field(default_factory=list)
    births: list[tuple[int, int, int | None]] = field(default_factory=list)
    """Key, time, and when the key's previous life in this batch expired (ms); `NEVER_MS` if it did
    not expire, None if there was none.
    """
    ends: list[tuple[int, int, Reason]] = field(default_factory=list)
    """Key, deadline and reason of each life that expired."""
    gone: list[tuple[int, int, Reason]] = field(default_factory=list)
    """The expired lives after which the key has no other life."""
    output: list[Any] = field(default_factory=list)
    calls: list[tuple[int, str, Any, int]] = field(default_factory=list)
    """The number of rows after a call, the call, its key and time."""
    failed: list[dict[str, Any]] = field(default_factory=list)
    """What is shown of calls that failed, with `on_error="reject"`."""
