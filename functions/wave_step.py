"""Processes a batch of a shard with a batched function."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.fields import Field, take, to_arrow
from idlestate.backends.runs.keys import take_keys
from idlestate.backends.runs.rows import Rows
from idlestate.backends.shards.function_state import FunctionState
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.functions.batched_columns import Flags, Ints
from idlestate.functions.batched_function import BatchedProcessFunction
from idlestate.functions.bound_function import BoundFunction
from idlestate.functions.declared_states import OpenFunction
from idlestate.functions.function_rows import input_numbers, row_type
from idlestate.functions.keys_after import KeysAfter
from idlestate.functions.life_table import LifeTable, joined
from idlestate.functions.timer_table import TimerTable
from idlestate.functions.value_column import ValueColumn
from idlestate.functions.wave_loop import WaveLoop
from idlestate.retention.policy import Policy
from idlestate.state.descriptors import ValueStateDescriptor

Wave: TypeAlias = tuple[Ints, Ints, Flags | None, Any]
"""Records of one call: their keys, times, which are reads, and a named tuple of their columns."""


def in_waves(
    bound: BoundFunction,
    kind: FunctionState,
    key_names: Sequence[str],
    opened: OpenFunction,
    policy: Policy,
    steps: Steps,
    at: Ints,
    old: Rows,
    swept: Rows,
    sweep_at_ms: int | None,
) -> KeysAfter:
    """Call the function with the records of all keys, then close what is due.

    Args:
        bound, kind, key_names: the operator.
        opened: the opened function.
        policy: the policy in force.
        steps: the records by key.
        at, old: each key's position in `old` (-1: no life), and the stored lives.
        swept: lives without records that are due.
        sweep_at_ms: the time up to which lives are closed; None closes none.

    Raises:
        FunctionError: a call raised an error, or returned something that does not fit.
    """
    function = opened.function
    assert isinstance(function, BatchedProcessFunction)
    keys = [pa.concat_arrays(each) for each in zip(steps.keys, swept.keys, strict=True)]
    k = len(steps) + len(swept)
    lives, timers, states = LifeTable(policy, k), TimerTable(k), dict[str, ValueColumn]()
    loaded = (np.flatnonzero(at >= 0), old), (np.arange(len(steps), k), swept)
    for number, (descriptor, columns) in enumerate(zip(opened.declared, kind.states, strict=True)):
        assert isinstance(descriptor, ValueStateDescriptor)
        state = states[descriptor.name] = ValueColumn(descriptor, columns, k)
        for of, rows in loaded:
            _, fields = kind.split(rows.payload)[number]
            state.load(of, fields, rows.lives.written_at_ms)
    for of, rows in loaded:
        lives.load(of, rows.lives)
        timers.load(of, rows.payload[-2:])
    loop = WaveLoop(bound.uid, function, keys, lives, states, timers, bound.output)
    for wave in _waves(bound, kind, key_names, steps):
        loop.records(*wave)
    if sweep_at_ms is not None:
        loop.settle(np.arange(k), np.full(k, sweep_at_ms))
    kept = np.flatnonzero(lives.is_open)
    wakes_at_ms = timers.wakes_at_ms(kept)
    if any(state.has_ttl for state in states.values()):
        wakes_at_ms = np.minimum(wakes_at_ms, loop.void_at_ms(kept))
    born, born_ms, before_ms, is_known = joined(lives.births, 4)
    gone, gone_ms, gone_why = lives.gone()
    return KeysAfter(
        kept,
        lives.lives(kept, wakes_at_ms),
        [
            *(field for state in states.values() for field in state.fields(kept)),
            *timers.fields(kept),
        ],
        born,
        born_ms,
        before_ms,
        is_known.astype(bool),
        joined(lives.ends, 3)[2],
        gone,
        gone_ms,
        gone_why,
        pa.Table.from_batches(loop.output, bound.output),
        [],
    )


def _waves(
    bound: BoundFunction, kind: FunctionState, key_names: Sequence[str], steps: Steps
) -> Iterator[Wave]:
    """The first records of all keys, then the second ones, and so on, separately per input."""
    if not len(steps):
        return iter(())
    order = np.argsort(-steps.counts, kind="stable")
    first = np.cumsum(steps.counts) - steps.counts
    # The number of keys with more than 0, 1, 2, ... records.
    widths = np.bincount(steps.counts)[::-1].cumsum()[::-1][1:]
    ends = np.cumsum(widths)
    number = np.repeat(np.arange(len(widths)), widths)
    keys = order[np.arange(len(number)) - (ends - widths)[number]]
    at = first[keys] + number
    carried = dict(zip((name for name, _ in kind.payload), steps.carried, strict=True))
    inputs = len(bound.inputs)
    if inputs == 1:
        return _of_input(bound, 0, key_names, steps, carried, keys, at, number)
    of_input = input_numbers(carried)[at]
    found = []
    for each in range(inputs):
        own = np.flatnonzero(of_input == each)
        found.append(
            _of_input(bound, each, key_names, steps, carried, keys[own], at[own], number[own])
        )
    # In each wave, left records come before right ones; no key has both.
    turns = np.flatnonzero(np.bincount(number * inputs + of_input)) % inputs
    return map(next, map(found.__getitem__, turns.tolist()))


def _of_input(
    bound: BoundFunction,
    of_input: int,
    key_names: Sequence[str],
    steps: Steps,
    carried: Mapping[str, Field],
    keys: Ints,
    at: Ints,
    number: Ints,
) -> Iterator[Wave]:
    """The waves of one input, from the keys, positions and waves of its records, in order of
    waves.
    """
    names = bound.inputs[of_input]
    of_key = dict(zip(key_names, take_keys(steps.keys, keys), strict=True))
    columns = [
        of_key[name] if name in of_key else to_arrow(take(carried[name], at)) for name in names
    ]
    row = row_type(bound.inputs, of_input)
    t_ms = steps.t_ms[at]
    reads = None if steps.is_read is None else steps.is_read[at]
    widths, begin = np.bincount(number), 0
    for width in widths[widths > 0].tolist():
        of = slice(begin, begin + width)
        yield (
            keys[of],
            t_ms[of],
            None if reads is None else reads[of],
            row(*(column.slice(begin, width) for column in columns)),
        )
        begin += width
