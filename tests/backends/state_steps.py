"""What random lives of keyed state are made of: keys, values, operations, times to live."""

from itertools import product

import hypothesis.strategies as st

from idlestate.retention.ttl_config import (
    StateTtlConfig,
    StateVisibility,
    TtlTime,
    TtlUpdateType,
)

KEYS = st.sampled_from(["", "a", "b", "\u043a\u043b\u044e\u0447", "\U0001d11e"])
SPACES = st.sampled_from([None, "", "w"])
USER_KEYS = st.sampled_from(["", "x", "y"])
NUMBERS = st.integers(-5, 5)
TEXTS = st.sampled_from(["p", "q", None])

SUMS = st.one_of(
    st.tuples(st.just("add"), st.tuples(NUMBERS)), st.tuples(st.just("get"), st.just(()))
)
OPS = {
    "value": st.one_of(
        st.tuples(st.just("update"), st.tuples(TEXTS)),
        st.tuples(st.just("value"), st.just(())),
    ),
    "list": st.one_of(
        st.tuples(st.just("add"), st.tuples(NUMBERS)),
        st.tuples(st.sampled_from(["addAll", "update"]), st.tuples(st.lists(NUMBERS, max_size=3))),
        st.tuples(st.sampled_from(["get", "get_first"]), st.just(())),
    ),
    "map": st.one_of(
        st.tuples(st.just("put"), st.tuples(USER_KEYS, NUMBERS)),
        st.tuples(st.just("putAll"), st.tuples(st.dictionaries(USER_KEYS, NUMBERS, max_size=3))),
        st.tuples(st.sampled_from(["get", "contains", "remove"]), st.tuples(USER_KEYS)),
        st.tuples(st.sampled_from(["entries", "keys", "values"]), st.just(())),
        st.tuples(st.just("iterator_remove"), st.tuples(st.lists(USER_KEYS, max_size=3))),
    ),
    "reducing": SUMS,
    "aggregating": SUMS,
}
"""Per kind the calls for one key, by their recorded names."""

WRITTEN = {
    kind: st.lists(
        st.tuples(KEYS, USER_KEYS, TEXTS if kind == "value" else NUMBERS), min_size=1, max_size=8
    )
    for kind in OPS
}
"""Per kind the rows of a batch: key, user key, value."""

BATCHES = {"value": ("put_many", "update"), "map": ("put_many", "put")}
"""Per kind what writes a batch and what writes one of it, where that is not `add_many`, `add`."""

TTLS = st.sampled_from(
    [
        StateTtlConfig(
            ttl_ms=ttl_ms,
            update_type=update,
            visibility=visibility,
            time=time,
            cleanup_in_background=False,
        )
        for ttl_ms, update, visibility, time in product(
            [1, 10, 100], TtlUpdateType, StateVisibility, TtlTime
        )
    ]
)
"""Every update type (one is off), visibility and clock. Nothing is cleaned up in background: each
backend has its own ways there, and the model could not know what is still stored."""
