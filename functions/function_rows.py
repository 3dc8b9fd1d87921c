"""Records in the form that functions receive: named tuples."""

from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, take, to_arrow
from idlestate.backends.runs.python_values import python_values
from idlestate.backends.shards.operator_kind import INPUT_NUMBER
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.functions.function_forms import METHODS

Ints = npt.NDArray[np.int64]


def function_rows(
    steps: Steps,
    key_names: Sequence[str],
    payload: Sequence[tuple[str, pa.DataType]],
    inputs: Sequence[Sequence[str]],
) -> Iterator[Any]:
    """The records of steps in order, each as a tuple of its input's columns.

    Args:
        steps: the records.
        key_names: the key columns.
        payload: the columns that the steps carry.
        inputs: the columns of records, per input.
    """
    names = [name for name, _ in payload]
    carried = dict(zip(names, steps.carried, strict=True))
    counts = steps.counts
    if len(inputs) == 1:
        keys: dict[str, Iterator[Any]] = {
            name: chain.from_iterable(map(repeat, python_values(column), counts.tolist()))
            for name, column in zip(key_names, steps.keys, strict=True)
            if name in inputs[0]
        }
        return _rows(0, inputs, keys, carried, len(steps.t_ms))
    number = input_numbers(carried)
    key_of = np.repeat(np.arange(len(counts)), counts)
    found = []
    for each, columns in enumerate(inputs):
        at = np.flatnonzero(number == each)
        keys = {
            name: iter(python_values(column.take(pa.array(key_of[at]))))
            for name, column in zip(key_names, steps.keys, strict=True)
            if name in columns
        }
        values = {name: take(carried[name], at) for name in columns if name in carried}
        found.append(_rows(each, inputs, keys, values, len(at)))
    return map(next, map(found.__getitem__, number.tolist()))


def input_numbers(carried: Mapping[str, Field]) -> Ints:
    """The input number of each record, from the carried columns."""
    return np.asarray(to_arrow(carried[INPUT_NUMBER]).to_numpy(zero_copy_only=False), np.int64)


def row_type(inputs: Sequence[Sequence[str]], number: int) -> Any:
    """The named tuple of an input's columns.

    Its attributes for names and methods use names that no column can have.
    """
    names = tuple(inputs[number])
    base: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    facts = {"__slots__": (), "_columns": names, "_method": METHODS[len(inputs) - 1][number]}
    return type("Row", (base,), facts)


def _rows(
    number: int,
    inputs: Sequence[Sequence[str]],
    keys: Mapping[str, Iterator[Any]],
    carried: Mapping[str, Field],
    count: int,
) -> Iterator[Any]:
    """The records of one input."""
    names, row = inputs[number], row_type(inputs, number)
    if not names:
        return repeat(row(), count)
    columns = [keys[name] if name in keys else python_values(carried[name]) for name in names]
    return map(row._make, zip(*columns, strict=True))
