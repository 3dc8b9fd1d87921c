"""Timers of many keys as two columns of a life.

Most keys have at most one timer, so columns are created for all keys at once.
"""

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.fields import Field
from idlestate.backends.runs.python_values import python_values
from idlestate.backends.shards.function_state import SEPARATOR
from idlestate.functions.function_context import Timers


def timers_of(fields: Sequence[Field]) -> list[Timers | None]:
    """The timers of each life; None without one.

    Args:
        fields: names and times, as in `timer_fields`.
    """
    names, times = map(python_values, fields)
    each_ms = iter(np.frombuffer(b"".join(filter(None, times)), dtype="<i8").tolist())
    return [
        None
        if text is None
        else {name or at: at for name, at in zip(text.split(SEPARATOR), each_ms, strict=False)}
        for text in names
    ]


def timer_fields(timers: Sequence[Timers]) -> list[Field]:
    """Names of timers in order of time and name, empty for plain timers, and their times."""
    counts = np.fromiter(map(len, timers), np.int64, len(timers))
    if counts.max(initial=0) > 1:
        timers = [_in_order(each) if len(each) > 1 else each for each in timers]
    bounds = np.concatenate([[0], np.cumsum(counts)])
    each_ms = np.fromiter(chain.from_iterable(map(dict.values, timers)), np.int64, bounds[-1])
    each_name = [timer if isinstance(timer, str) else "" for timer in chain.from_iterable(timers)]
    names: Sequence[str | None] = each_name
    if (counts != 1).any():
        names = [
            SEPARATOR.join(each_name[begin:end]) if begin < end else None
            for begin, end in pairwise(bounds.tolist())
        ]
    none = None if (counts > 0).all() else pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    places = pa.py_buffer((bounds * each_ms.itemsize).astype(np.int32))
    times = pa.Array.from_buffers(pa.binary(), len(counts), [none, places, pa.py_buffer(each_ms)])
    return [pa.array(names, pa.string()), times]


def _in_order(timers: Timers) -> Timers:
    return dict(sorted(timers.items(), key=lambda each: (each[1], _name(each[0]))))


def _name(timer: str | int) -> str:
    return timer if isinstance(timer, str) else ""
