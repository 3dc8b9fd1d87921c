"""The plan of a policy change: which open lives the new policy would remove, and when.

A life that both policies end by a time is removed in any case. The effect of the change is the
lives that only the new policy ends. Computing a plan removes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from idlestate.backends.runs.compaction import SEGMENT_BYTES
from idlestate.backends.runs.leaving_rows import lives_of, portions
from idlestate.backends.runs.table_runs import Runs
from idlestate.backends.shards.shard_record import LIVES, ShardRecord
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.retention.policy import Policies, Policy
from idlestate.retention.rules import is_due

HORIZONS_MS = (0, 3_600_000, 86_400_000)
"""Now, in an hour, in a day."""
_NONE = np.zeros(0, dtype=np.int64)
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Removal:
    """Open lives that end by a time: keys, and bytes of state, estimated by the mean of each
    run.
    """

    keys: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Horizon:
    """What is removed up to a time.

    Attributes:
        in_ms: the time, counted from now.
        new: what the new policy removes.
        current: what the current policy removes.
        more: what only the new policy removes.
    """

    in_ms: int
    new: Removal = Removal()
    current: Removal = Removal()
    more: Removal = Removal()


def horizons_of(
    table: ShardTable, record: ShardRecord, policies: Policies, others: Policies, now_ms: int
) -> tuple[Horizon, ...]:
    """What other policies would remove of a shard's open lives; takes as long as a sweep.

    Args:
        table, record: the shard.
        policies: those in force.
        others: the new ones.
        now_ms: the time from which `HORIZONS_MS` count.
    """
    new = table.spec.open_lives(others)
    return added_up(
        _of_table(table, name, record, policy, new[name], now_ms)
        for name, policy in table.spec.open_lives(policies).items()
    )


def _of_table(
    table: ShardTable, name: str, record: ShardRecord, policy: Policy, other: Policy, now_ms: int
) -> list[Horizon]:
    stored = record.table(name)
    current, ends_ms = table.tables[name], table.spec.ends_ms
    times_ms = [now_ms + each for each in HORIZONS_MS]
    row_bytes = [ref.bytes / max(1, ref.rows) for ref in stored.runs]
    by_new, by_old = (current.due(each, times_ms[-1], _NONE) for each in (other, policy))
    new_ms, kept_ms = (ends_ms(lives_of(current, by_new), each) for each in (other, policy))
    old_ms = ends_ms(lives_of(current, by_old), policy)
    new_bytes, old_bytes = (
        _bytes_at(current, at, row_bytes) + _entry_bytes(table, record, at)
        for at in (by_new, by_old)
    )
    found = []
    for in_ms, at_ms in zip(HORIZONS_MS, times_ms, strict=True):
        by_either = is_due(new_ms, at_ms)
        found.append(
            Horizon(
                in_ms,
                _removal(by_either, new_bytes),
                _removal(is_due(old_ms, at_ms), old_bytes),
                _removal(by_either & ~is_due(kept_ms, at_ms), new_bytes),
            )
        )
    return found


def added_up(parts: Iterable[Sequence[Horizon]]) -> tuple[Horizon, ...]:
    """The horizons of several shards as one."""
    total = [Horizon(each) for each in HORIZONS_MS]
    for part in parts:
        total = [_sum(one, other) for one, other in zip(total, part, strict=True)]
    return tuple(total)


def to_numbers(horizons: Sequence[Horizon]) -> list[list[int]]:
    """Horizons as plain numbers, for a message; `of_numbers` is the inverse."""
    return [
        [n for part in (each.new, each.current, each.more) for n in (part.keys, part.bytes)]
        for each in horizons
    ]


def of_numbers(numbers: Sequence[Sequence[int]]) -> tuple[Horizon, ...]:
    """Horizons from plain numbers."""
    return tuple(
        Horizon(in_ms, Removal(*each[:2]), Removal(*each[2:4]), Removal(*each[4:]))
        for in_ms, each in zip(HORIZONS_MS, numbers, strict=True)
    )


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """What another policy would remove from one operator.

    Attributes:
        uid: the operator.
        now_ms: its current time: its watermark, or in processing time the clock.
        policy: the policy in effect.
        new_policy: the new policy.
        stored_keys: open lives, including overdue ones.
        stored_bytes: their bytes.
        horizons: what would be removed now, in an hour and in a day.
        right: for a join, the current and the new policy of right rows.
    """

    uid: str
    now_ms: int
    policy: Policy
    new_policy: Policy
    stored_keys: int
    stored_bytes: int
    horizons: tuple[Horizon, ...]
    right: Policies | None = None

    @property
    def live_keys(self) -> int:
        """Lives that have not ended yet under the current policy."""
        return self.stored_keys - self.horizons[0].current.keys

    @property
    def shrink(self) -> float:
        """The share of the live keys that the new policy would remove at once."""
        return self.horizons[0].more.keys / self.live_keys if self.live_keys else 0.0

    @property
    def refusal(self) -> str | None:
        """Why the new policy is refused; None if it removes no more than its `max_shrink`."""
        most = self.new_policy.max_shrink
        if self.shrink <= most:
            return None
        return (
            f"operator {self.uid!r}: the new policy would remove {self.horizons[0].more.keys:,} of "
            f"{self.live_keys:,} live keys at once ({self.shrink:.0%}), more than its max_shrink "
            f"of {most:.0%}; use longer spans, or, if these keys may go, set max_shrink: "
            f"{_percent_above(self.shrink)}% next to them or start with --allow-shrink; "
            "idlestate plan shows what goes when"
        )

    def to_message(self) -> dict[str, Any]:
        """The plan without its new policy, as plain values; `of_message` is the inverse."""
        return {
            "uid": self.uid,
            "now_ms": self.now_ms,
            "policy": self.policy.to_json(),
            "right": self.right and [each.to_json() for each in self.right],
            "stored": [self.stored_keys, self.stored_bytes],
            "horizons": to_numbers(self.horizons),
        }

    @classmethod
    def of_message(cls, facts: Mapping[str, Any], new_policy: Policy) -> "PolicyPlan":
        """Read it back."""
        policy, horizons = Policy.from_json(facts["policy"]), of_numbers(facts["horizons"])
        keys, size = facts["stored"]
        found = cls(facts["uid"], facts["now_ms"], policy, new_policy, keys, size, horizons)
        if facts["right"] is None:
            return found
        before, after = map(Policy.from_json, facts["right"])
        return replace(found, right=(before, after))

    def to_json(self) -> dict[str, object]:
        """The plan as a dict that `json` writes."""
        return {
            "operator": self.uid,
            "now_ms": self.now_ms,
            "policy": self.policy.to_json(),
            "new_policy": self.new_policy.to_json(),
            "right_policy": self.right and self.right[0].to_json(),
            "new_right_policy": self.right and self.right[1].to_json(),
            "live_keys": self.live_keys,
            "stored_keys": self.stored_keys,
            "stored_bytes": self.stored_bytes,
            "shrink": round(self.shrink, 4),
            "is_refused": self.refusal is not None,
            "horizons": [asdict(each) for each in self.horizons],
        }


def plan_of_shards(
    uid: str,
    records: Sequence[ShardRecord],
    horizons: tuple[Horizon, ...],
    policy: Policy,
    other: Policy,
    now_ms: int,
) -> PolicyPlan:
    """The plan of an operator from its shards' records and their summed horizons."""
    keys = sum(each.live_keys for each in records)
    size = sum(
        stored.live_bytes
        for each in records
        for stored in (*map(each.table, LIVES), *each.entry_tables)
    )
    return PolicyPlan(uid, now_ms, policy, other, keys, size, horizons)


def _bytes_at(current: Runs, positions: Ints, row_bytes: Sequence[float]) -> Floats:
    size = np.zeros(len(positions))
    for (chosen, _), each in zip(current.by_run(positions), row_bytes, strict=True):
        size[chosen] = each
    return size


def _entry_bytes(table: ShardTable, record: ShardRecord, at: Ints) -> Floats:
    """Bytes in the entry tables that belong to the lives at these positions."""
    size, kind = np.zeros(len(at)), table.spec.kind
    if record.entry_tables:
        begin = 0
        for rows in portions(table.current, at, SEGMENT_BYTES, keys=False):
            for name, counts in kind.entry_counts(rows.payload).items():
                stored = record.table(name)
                each = stored.live_bytes / max(1, stored.live)
                size[begin : begin + len(rows)] += counts * each
            begin += len(rows)
    return size


def _removal(is_gone: npt.NDArray[np.bool_], size: Floats) -> Removal:
    return Removal(int(is_gone.sum()), round(float(size[is_gone].sum())))


def _sum(one: Horizon, other: Horizon) -> Horizon:
    def both(a: Removal, b: Removal) -> Removal:
        return Removal(a.keys + b.keys, a.bytes + b.bytes)

    return replace(
        one,
        new=both(one.new, other.new),
        current=both(one.current, other.current),
        more=both(one.more, other.more),
    )


def _percent_above(share: float) -> int:
    return min(100, int(share * 100) + 1)
