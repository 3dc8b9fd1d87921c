"""Redistribution of operator state when the number of instances changes.

It works like Flink's `RoundRobinOperatorStateRepartitioner`: it distributes offsets of partitions
in the files (handles) that the old instances wrote, without reading them.

    split       all partitions of a state, in the order of the old instances, in contiguous parts of
                equal length; the instances that get one more follow those of the previous state
    union       every new instance gets everything
    broadcast   all old instances have the same: new instance i takes the copy of i mod their number

If the number of instances stays the same, each keeps its own split and broadcast states, and a
broadcast state that an old instance lacks is distributed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from idlestate.state.errors import KeyGroupError


class OperatorStateMode(Enum):
    """How an operator state is distributed."""

    SPLIT = "SPLIT_DISTRIBUTE"
    UNION = "UNION"
    BROADCAST = "BROADCAST"


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """Partitions of one state in one handle.

    Attributes:
        mode: how they are distributed.
        offsets: the start of each.
    """

    mode: OperatorStateMode
    offsets: tuple[int, ...]


Handles = Mapping[str, Mapping[str, StatePartitions]]
"""The states of one instance: handle, state name, partitions."""


def redistribute(
    old: Sequence[Handles], new_parallelism: int, names: Iterable[str] | None = None
) -> list[dict[str, dict[str, StatePartitions]]]:
    """Distribute the states of the old instances to the new ones.

    Args:
        old: the states of each old instance, in order.
        new_parallelism: the number of new instances, at least 1.
        names: the order of states, which decides which instances get one more part of a split
            state; default: sorted.
    """
    if new_parallelism < 1:
        raise KeyGroupError(f"parallelism is {new_parallelism}: it must be at least 1")
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
    """The states that every instance keeps if their number stays the same: all but union states."""
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
    """Distribute a split state from this instance on; return the start of the next state."""
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
