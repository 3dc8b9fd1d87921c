"""Keys on their way through a function: what it is given of them, and what became of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from idlestate.functions.function_context import Timers
from idlestate.retention.rules import Reason


@dataclass(frozen=True, slots=True)
class KeysToVisit:
    """k keys with the lives that they have, and n records: `counts[i]` are those of key i.

    Attributes:
        lives: created, written, read, armed, cleanup time and deadline (ms); None without a life.
        contents: per state what each key has.
        timers: each key's timers, None without one.
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
    """What became of the keys; `kept` are the numbers of those with an open life."""

    kept: list[int] = field(default_factory=list)
    lives: list[tuple[int, int, int, int]] = field(default_factory=list)
    contents: list[list[Any]] = field(default_factory=list)
    timers: list[Timers] = field(default_factory=list)
    wakes_at_ms: list[int] = field(default_factory=list)
    births: list[tuple[int, int, int | None]] = field(default_factory=list)
    """Key, time, and what this batch knows of the key: when it expired (ms), `NEVER_MS` if its
    life before this one did not expire, None if it had no other life.
    """
    ends: list[tuple[int, int, Reason]] = field(default_factory=list)
    """Key, deadline and reason of each life that expired."""
    gone: list[tuple[int, int, Reason]] = field(default_factory=list)
    """Those of them after which the key has no other life."""
    output: list[Any] = field(default_factory=list)
    calls: list[tuple[int, str, Any, int]] = field(default_factory=list)
    """How many rows there were after a call, which call, its key and time."""
    failed: list[dict[str, Any]] = field(default_factory=list)
    """What is shown of calls that failed, with `on_error="reject"`."""
