"""Facts about a key from the tables of its shard: why it is, or is no longer, in state.

For a join, whose keys have rows instead of a life, they describe the rows of each input.

An expired key is known as long as it is remembered. Later it cannot be distinguished from a key
that was never seen, unless the shard has forgotten no key or the key is not in the sketch of keys
ever seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.runs.keys import Keys
from idlestate.backends.runs.table_schema import KeyColumns
from idlestate.backends.shards import keys_seen_sketch, remembered_keys
from idlestate.backends.shards.held_rows import waiting
from idlestate.backends.shards.key_rows_of_joins import SideRows, rows_of_key
from idlestate.backends.shards.shard_ranges import first_hashes
from idlestate.backends.shards.shard_record import HELD, ShardRecord
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.retention.policy import FOREVER_MS, Policies, Policy
from idlestate.retention.rules import NEVER_MS, Reason, is_due
from idlestate.retention.shown_values import show

Ints = npt.NDArray[np.int64]


class KeyState(StrEnum):
    """What is known about a key."""

    OPEN = "open"
    """Its life continues."""
    OVERDUE = "overdue"
    """Its life has ended, and the next batch or sweep removes it."""
    GONE = "gone"
    """Its life has ended; the time and the reason are remembered."""
    FORGOTTEN_OR_NEVER_SEEN = "forgotten_or_never_seen"
    """It expired too long ago to be remembered, was removed by a writer, or was never seen."""
    NEVER_SEEN = "never_seen"
    """It was never seen."""


@dataclass(frozen=True, slots=True)
class KeyDetails:
    """A key as its shard knows it; times in ms, None where there is none.

    Attributes:
        state: what is known about it.
        deadline_ms: when its life ends, or has ended.
        reason: the rule that sets the deadline: `idle`, `ttl` or `lifetime`.
        created_at_ms, written_at_ms, read_at_ms, armed_at_ms, last_access_ms, cleanup_at_ms: of an
            open or overdue life.
        remembered_since_ms: keys that ended before this are forgotten; None if none is forgotten.
        held_rows: the number of the key's rows that wait for the watermark.
        held_from_ms: the time of the first waiting row.
        timer_at_ms: for a function, its next call for the key: at its first timer, or when its
            states expire.
        sides: for a join, the key's rows in state by input, `left` and `right`; the deadline is the
            one of the last row.
    """

    state: KeyState
    deadline_ms: int | None = None
    reason: str | None = None
    created_at_ms: int | None = None
    written_at_ms: int | None = None
    read_at_ms: int | None = None
    armed_at_ms: int | None = None
    last_access_ms: int | None = None
    cleanup_at_ms: int | None = None
    remembered_since_ms: int | None = None
    held_rows: int = 0
    held_from_ms: int | None = None
    timer_at_ms: int | None = None
    sides: Mapping[str, SideRows] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As a dict that `json` writes; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "KeyDetails":
        """Read it back."""
        sides = {name: SideRows(**each) for name, each in facts["sides"].items()}
        return cls(**{**facts, "state": KeyState(facts["state"]), "sides": sides})


def one_key(values: Sequence[Any], columns: KeyColumns) -> list[pa.Array]:
    """A key as one-row arrays with the types of its columns.

    Args:
        values: the value of each column, or its text; None is null.
        columns: the key columns.

    Raises:
        ValueError: the numbers of values and columns differ, or a value has another type.
    """
    names = ", ".join(name for name, _ in columns)
    if len(values) != len(columns):
        raise ValueError(f"pass one value for each key column ({names}); found {len(values)}")
    both = zip(values, columns, strict=True)
    return [key_value(name, kind, value) for value, (name, kind) in both]


def key_value(name: str, kind: pa.DataType, value: Any) -> pa.Array:
    """A value of a key column as an array of one row.

    Args:
        name, kind: the column.
        value: the value, or its text; None is null.

    Raises:
        ValueError: the value has another type.
    """
    is_text = isinstance(value, str)
    try:
        if is_text and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            value = value.encode(errors="surrogateescape")  # how the command line passes it
        return pa.array([value], None if value is not None else kind).cast(kind)
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError) as error:
        problem = f"{show(value)} is not a value of this type"
        if isinstance(error, UnicodeError):
            problem = "the value is not valid UTF-8"
        elif is_text and pa.types.is_timestamp(kind):
            zone = "Z" if kind.tz else ""
            problem = f"{show(value)} is not a time such as 2026-01-31T12:00:00{zone}"
        raise ValueError(f"key column {name} is of type {kind}: {problem}") from error


def shard_of(key: Keys, shards: int) -> int:
    """The number of the shard of a one-row key."""
    return int(np.searchsorted(first_hashes(shards), hash_keys(key)[0], side="right")) - 1


def details_of(
    table: ShardTable, record: ShardRecord, key: Keys, policies: Policies, now_ms: int
) -> KeyDetails:
    """What a shard knows about one of its keys.

    Args:
        table, record: the shard.
        key: the result of `one_key`.
        policies: the policies in force.
        now_ms: the operator's time; lives that have ended by then are overdue.
    """
    hashes = hash_keys(key)
    if table.spec.is_of_sides:
        return _details_of_rows(table, hashes, rows_of_key(table, hashes, key, policies, now_ms))
    found = _details_of_life(table, record, hashes, key, policies[0], now_ms)
    held = table.others.get(HELD)
    held_ms = None if held is None else waiting(held, table.spec, hashes, key)
    if held_ms is None or not len(held_ms):
        return found
    return replace(found, held_rows=len(held_ms), held_from_ms=int(held_ms[0]))


def _details_of_life(
    table: ShardTable, record: ShardRecord, hashes: Ints, key: Keys, policy: Policy, now_ms: int
) -> KeyDetails:
    _, rows = table.current.look_up(hashes, key)
    if len(rows):
        lives, ends = rows.lives, rows.lives.ends(policy)
        is_over = bool(is_due(ends.deadline_ms, now_ms)[0])
        return KeyDetails(
            KeyState.OVERDUE if is_over else KeyState.OPEN,
            _time(ends.deadline_ms),
            Reason(int(ends.reason[0])).label,
            created_at_ms=_time(lives.created_at_ms),
            written_at_ms=_time(lives.written_at_ms),
            read_at_ms=_time(lives.read_at_ms),
            armed_at_ms=_time(lives.armed_at_ms),
            last_access_ms=_time(lives.last_access_ms(policy)),
            cleanup_at_ms=_time(lives.cleanup_at_ms(policy)),
            timer_at_ms=_time(lives.with_wakes.columns[4]),
        )
    remember_ms = policy.remember_for_ms
    since_ms = None if remember_ms == FOREVER_MS else record.time_ms - remember_ms
    end = remembered_keys.end_of(table.remembered, hashes)
    if end is not None:
        return KeyDetails(KeyState.GONE, end[0], end[1].label, remembered_since_ms=since_ms)
    tally = record.tally
    has_forgotten = (
        tally.created - tally.returning_keys != table.current.live + table.remembered.live
    )
    is_new = keys_seen_sketch.lacks(table.seen, hashes) or not has_forgotten
    state = KeyState.NEVER_SEEN if is_new else KeyState.FORGOTTEN_OR_NEVER_SEEN
    return KeyDetails(state, remembered_since_ms=since_ms)


def _details_of_rows(table: ShardTable, hashes: Ints, sides: Mapping[str, SideRows]) -> KeyDetails:
    if not sides:
        is_new = keys_seen_sketch.lacks(table.seen, hashes)
        return KeyDetails(KeyState.NEVER_SEEN if is_new else KeyState.FORGOTTEN_OR_NEVER_SEEN)
    is_over = all(each.overdue == each.rows for each in sides.values())
    last = max(sides.values(), key=_last_end_ms)
    return KeyDetails(
        KeyState.OVERDUE if is_over else KeyState.OPEN,
        last.last_end_ms,
        last.reason,
        sides=sides,
    )


def _last_end_ms(rows: SideRows) -> int:
    return FOREVER_MS if rows.last_end_ms is None else rows.last_end_ms


def _time(times_ms: Any) -> int | None:
    at_ms = int(times_ms[0])
    return None if at_ms in (NEVER_MS, FOREVER_MS) else at_ms


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a key is in an operator's state, or has left it.

    Attributes:
        uid: the operator.
        key: its columns by name.
        now_ms: the operator's time: its watermark, or the clock's in processing time.
        details: what is known about the key.
        policy: the policy in effect; its `chosen_by` names what selected it.
        policy_version: the policy's version, from 1.
        right_policy: for a join, the policy of right rows.
    """

    uid: str
    key: dict[str, Any]
    now_ms: int
    details: KeyDetails
    policy: Policy
    policy_version: int
    right_policy: Policy | None = None

    def to_json(self) -> dict[str, Any]:
        """The explanation as a dict that `json` writes; key values as text."""
        return {
            "operator": self.uid,
            "key": {name: _plain(value) for name, value in self.key.items()},
            "now_ms": self.now_ms,
            **self.details.to_json(),
            "policy": self.policy.to_json(),
            "policy_version": self.policy_version,
            "right_policy": None if self.right_policy is None else self.right_policy.to_json(),
            "chosen_by": self.policy.chosen_by,
        }


def _plain(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.hex()
    return None if value is None else str(value)
