"""What random lives of keyed state are made of: keys, values, operations, times to live."""

from itertools import product
from pathlib import Path
from typing import Any

import hypothesis.strategies as st

from idlestate.retention.policy import TimeDomain, UpdateType
from idlestate.retention.ttl_config import StateTtlConfig, StateVisibility
from idlestate.state.map_state import MapIterator

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where files are quick to make; elsewhere the usual folder for short-lived files."""

KEYS = ["", "a", "b", "\u043a\u043b\u044e\u0447", "\U0001d11e"]
SPACES = [None, "", "w"]
USER_KEYS = ["", "x", "y"]
NUMBERS = [-5, 0, 1, 3]
TEXTS = ["p", "q", None]

ADDRESSES = st.sampled_from(list(product(KEYS, SPACES)))
"""Key and namespace."""

NAMESPACES = st.sampled_from(SPACES)

LAPSES = st.sampled_from([(1, 0), (0, 0), (0, 1), (1, -1), (1, 1)])
"""How much time passes: so many times to live, and milliseconds more."""

NOT_SIMPLEST = st.integers(0, 1 << 16)
"""Hypothesis begins each run with the simplest case there is, one step over and over: a case that
asks for a number above 0 here is spared that."""

_SUMS = [*(("add", number) for number in NUMBERS), ("get",), ("get",)]
_LISTS = [[], [3], [0, -5, 1]]
_MAPS = [{}, {"x": 1}, {"y": 0, "": 3}]
ONE_BY_ONE = {
    "value": [*(("update", text) for text in TEXTS), ("value",), ("value",)],
    "list": [
        *(("add", number) for number in NUMBERS),
        *product(["addAll", "update"], _LISTS),
        *[("get",), ("get_first",)] * 3,
    ],
    "map": [
        *product(["put"], USER_KEYS, NUMBERS[:2]),
        *(("putAll", entries) for entries in _MAPS),
        *product(["get", "contains", "remove"], USER_KEYS),
        *[("entries",), ("keys",), ("values",)],
        *(("iterator_remove", keys) for keys in ([], ["x"], ["", "y"], USER_KEYS)),
    ],
    "reducing": _SUMS,
    "aggregating": _SUMS,
}
"""Per kind the calls for one key, by their recorded names, with what they are given."""

CALLS = {kind: st.sampled_from(calls) for kind, calls in ONE_BY_ONE.items()}


def _rows(drawn: bytes) -> list[tuple[str, str, int]]:
    return [
        (
            KEYS[first % len(KEYS)],
            USER_KEYS[first // len(KEYS) % len(USER_KEYS)],
            NUMBERS[second % len(NUMBERS)],
        )
        for first, second in zip(drawn[::2], drawn[1::2], strict=False)
    ]


ROWS = st.binary(min_size=2, max_size=16).map(_rows)
"""Rows of a batch: key, user key, number. Bytes are one draw, where a list of tuples is many."""

BATCHES = {"value": ("put_many", "update"), "map": ("put_many", "put")}
"""Per kind what writes a batch and what writes one of it, where that is not `add_many`, `add`."""

TTLS = [
    None,
    *(
        StateTtlConfig(
            ttl_ms=ttl_ms,
            update_type=update,
            visibility=visibility,
            time=time,
            cleanup_in_background=False,
        )
        for update, visibility, ttl_ms, time in product(
            UpdateType, StateVisibility, [1, 10, 100], TimeDomain
        )
    ),
]
"""No time to live, and every update type, visibility and clock. Nothing is cleaned up in
background: each backend has its own ways there, and the model could not know what is still stored.
"""


def in_recorded_order(state: Any) -> MapIterator:
    """Entries in the order in which both of Flink's backends visit the recorded user keys.

    Nobody promised an order, but a walk that an error ends leaves the entries behind it as they
    were.
    """
    entries: MapIterator = state.iterator()
    entries._left = iter(sorted(entries._left, key=lambda each: (each is None, each)))
    return entries
