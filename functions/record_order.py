"""Orders records of the same key and time by their values, never by arrival."""

from dataclasses import replace

import numpy as np

from idlestate.backends.runs.fields import take, to_arrow
from idlestate.backends.runs.keys import take_keys
from idlestate.backends.runs.value_order import order_keys
from idlestate.backends.shards.steps_by_key import Steps


def in_row_order(steps: Steps) -> Steps:
    """The same steps, with rows of equal key, time, order columns and kind sorted by their
    values.
    """
    n = len(steps.t_ms)
    if n < 2 or not steps.carried:
        return steps
    key = np.repeat(np.arange(len(steps)), steps.counts)
    same = (key[1:] == key[:-1]) & (steps.t_ms[1:] == steps.t_ms[:-1])
    if not same.any():
        return steps
    tied = np.zeros(n, dtype=bool)
    tied[1:] |= same
    tied[:-1] |= same
    at = np.flatnonzero(tied)
    reads = [] if steps.is_read is None else [steps.is_read[at]]
    columns = [*take_keys(steps.order, at), *(to_arrow(take(field, at)) for field in steps.carried)]
    codes = [code for column in columns[: len(steps.order)] for code in order_keys(column)]
    values = [code for column in columns[len(steps.order) :] for code in order_keys(column)]
    # The last key of `lexsort` is the primary one.
    order = np.lexsort((*reversed([key[at], steps.t_ms[at], *codes, *reads, *values]),))
    if bool((order[1:] > order[:-1]).all()):
        return steps
    rows = np.arange(n)
    rows[at] = at[order]
    return replace(
        steps,
        is_read=None if steps.is_read is None else steps.is_read[rows],
        order=take_keys(steps.order, rows),
        carried=[take(field, rows) for field in steps.carried],
    )
