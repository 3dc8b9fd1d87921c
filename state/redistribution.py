"""How operator state is dealt out anew when the number of instances changes.

As Flink's `RoundRobinOperatorStateRepartitioner`. What is dealt out are offsets of partitions in
the files (handles) that the old instances wrote; nothing is read for it.

    split       all partitions of a state, in the order of the old instances, in contiguous runs of
                equal length; the instances that get one more begin where the state before ended
    union       every new instance gets everything
    broadcast   all old instances hold the same: new instance i takes the copy of i mod their number

When the number of instances stays, each keeps its own split and broadcast states; a broadcast
state that some old instance lacks is dealt out beside that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class OperatorStateMode(Enum):
    """How an operator state is dealt out."""

    SPLIT = "SPLIT_DISTRIBUTE"
    UNION = "UNION"
    BROADCAST = "BROADCAST"


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """Partitions of one state in one handle.

    Attributes:
        mode: how they are dealt out.
        offsets: where each begins.
    """

    mode: OperatorStateMode
    offsets: tuple[int, ...]


Handles = Mapping[str, Mapping[str, StatePartitions]]
"""What one instance holds: handle, state name, partitions."""


def redistribute(
    old: Sequence[Handles], new_parallelism: int, names: Iterable[str] | None = None
) -> list[dict[str, dict[str, StatePartitions]]]:
    """Deal the states of the old instances out to the new ones.

    Args:
        old: what each old instance holds, in their order.
        new_parallelism: how many instances there will be, at least 1.
        names: the order in which states are taken; it decides which instances get one more of
            a split state. Sorted when not given.
    """
    if new_parallelism < 1:
        raise ValueError(f"parallelism is {new_parallelism}: it must be at least 1")
    held = [(handle, states) for instance in old for handle, states in instance.items()]
    order = (
        list(names) if names is not None else sorted({name for _, each in held for name in each})
    )
    stays = len(old) == new_parallelism
    new = _without_union(old) if stays else [{} for _ in range(new_parallelism)]
    start = 0
    for name in order:
        parts = [(handle, states[name]) for handle, states in held if name in states]
        mode = parts[0][1].mode if parts else None
        if mode is OperatorStateMode.SPLIT and not stays:
            start = _split(name, parts, new, start)
        elif mode is OperatorStateMode.UNION:
            for handle, part in parts:
                for instance in new:
                    instance.setdefault(handle, {})[name] = part
        elif mode is OperatorStateMode.BROADCAST and not (stays and len(parts) == len(old)):
            for index, instance in enumerate(new):
                handle, part = parts[index % len(parts)]
                instance.setdefault(handle, {})[name] = part
    return new


def _without_union(old: Sequence[Handles]) -> list[dict[str, dict[str, StatePartitions]]]:
    """What every instance keeps when their number stays: all but union states."""
    return [
        {
            handle: {
                name: part
                for name, part in states.items()
                if part.mode is not OperatorStateMode.UNION
            }
            for handle, states in instance.items()
        }
        for instance in old
    ]


def _split(
    name: str,
    parts: Sequence[tuple[str, StatePartitions]],
    new: Sequence[dict[str, dict[str, StatePartitions]]],
    start: int,
) -> int:
    """Deal out a split state from this instance on; where the next state starts."""
    offsets = [(handle, offset) for handle, part in parts for offset in part.offsets]
    base, more = divmod(len(offsets), len(new))
    at = 0
    for step in range(len(new)):
        index = (start + step) % len(new)
        count = base + (step < more)
        for handle, offset in offsets[at : at + count]:
            states = new[index].setdefault(handle, {})
            there = states.get(name, StatePartitions(OperatorStateMode.SPLIT, ()))
            states[name] = StatePartitions(OperatorStateMode.SPLIT, (*there.offsets, offset))
        at += count
    return (start + more) % len(new)
