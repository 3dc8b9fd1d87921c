"""Random cases for the law of batches: policies, keys, values, sequences, cuts and sweeps.

A sequence is drawn with the reference running alongside, so that accesses can be aimed at the
places where the rule turns: one before, at, and one after a deadline or a re-arming.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from idlestate.backends.runs.compaction import MergePolicy
from tests.backends.law_aggregates import (
    COLUMNS,
    DAYS,
    NAN,
    STAMPS,
    TIMESTAMP,
    VARIANTS,
    aggregate_texts,
)
from tests.compare import LAST_MS
from tests.reference import (
    FOREVER_MS,
    ON_CREATE_AND_WRITE,
    ON_READ_AND_WRITE,
    Record,
    Reference,
    Rule,
)

# Key columns and the keys drawn from. Spark's hash passes over nulls, so that of the last ones
# two would hash alike.
KEYS: dict[str, tuple[list[pa.DataType], list[tuple[Any, ...]]]] = {
    "string": ([pa.string()], [("a",), ("",), (None,), ("é\U0001f600",)]),
    "binary": ([pa.binary()], [(b"",), (b"\x00\xff",), (None,)]),
    "int8": ([pa.int8()], [(-128,), (127,), (None,)]),
    "int16": ([pa.int16()], [(-1,), (300,), (None,)]),
    "int32": ([pa.int32()], [(0,), (-(2**31),), (None,)]),
    "int64": ([pa.int64()], [(0,), (2**63 - 1,), (-(2**63),), (None,)]),
    "boolean": ([pa.bool_()], [(True,), (False,), (None,)]),
    "date": ([pa.date32()], [(day,) for day in [*DAYS, None]]),
    "timestamp": ([TIMESTAMP], [(stamp,) for stamp in [*STAMPS, None]]),
    "mixed": (
        [pa.string(), pa.int32(), pa.bool_()],
        [("a", 1, True), ("a", 2, True), ("a", None, None), (None, 1, False), (None, None, None)],
    ),
    "swapped": ([pa.string(), pa.string()], [("a", None), (None, "a"), ("a", "a"), (None, None)]),
}

ORDERS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "seq": (pa.int32(), [None, 1, 2]),
    "weight": (pa.float64(), [None, 0.0, -0.0, NAN, 1.0]),
}

# Where times begin: at zero, before 1970, today, and close to what a timestamp can say.
ORIGINS_MS = (0, -50, 1_700_000_000_000, LAST_MS - 2000)


class Values(dict[str, Any]):
    """The values of every column that one small number stands for; printed as that number."""

    def __init__(self, variant: int) -> None:
        self.variant = variant
        for at, (name, (_, pool)) in enumerate(COLUMNS.items()):
            self[name] = pool[(variant * (at + 1) + at) % len(pool)]

    def __repr__(self) -> str:
        return f"Values({self.variant})"


ROW_VALUES = [Values(variant) for variant in range(VARIANTS)]


@dataclass(frozen=True)
class Case:
    """One run: what is kept, and batches of records each followed by a sweep or none."""

    key_kind: str
    aggregates: dict[str, str]
    order: tuple[str, ...]
    rule: Rule
    changes: tuple[tuple[int, Rule], ...]
    """Batches from which on another policy holds, ascending."""
    batches: list[list[Record]]
    sweeps: list[int | None]
    reference_sweeps: bool
    """Whether the reference sweeps after each batch too, or at the end only."""
    is_sorted: bool
    """Whether the table orders each batch as a pipeline does, else the sequence is as given."""
    at_batch_time: bool
    """Whether all records of a batch have its time: processing time."""
    weak_hash: bool
    parts: int
    """Tasks that each hand over a part of a batch."""
    shards: int
    restores: tuple[bool, ...]
    """Whether the table is written and read back, by batch (over again when they are more)."""
    merges: tuple[MergePolicy, ...]
    """When runs are merged, by batch in the same way."""

    def rule_of(self, batch_id: int) -> Rule:
        held = [rule for first, rule in self.changes if first <= batch_id]
        return held[-1] if held else self.rule

    @property
    def compares_returning_keys(self) -> bool:
        # Ended keys are remembered by their hash alone. A sweep beyond records that are still to
        # come makes it forget what those would come back to.
        rules = [self.rule, *(rule for _, rule in self.changes)]
        forever = all(rule.remember_ms == FOREVER_MS for rule in rules)
        return not self.weak_hash and (forever or not self.reference_sweeps)


def spans(most: int) -> st.SearchStrategy[int]:
    return st.one_of(
        st.integers(2, most), st.integers(2, most), st.sampled_from([1, 2**53, 2**62, FOREVER_MS])
    )


OFF = st.just(0)
UPDATES = st.sampled_from([ON_CREATE_AND_WRITE, ON_READ_AND_WRITE])


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Any policy; mostly with an idle rule of windows of a few milliseconds."""
    has_idle = draw(st.integers(0, 9)) > 0
    if has_idle:
        minimum = draw(st.integers(2, 10))
        maximum = minimum + draw(st.sampled_from([0, 1, 3, 3, 5, 8, 12]))
        if draw(st.integers(0, 19)) == 0:
            maximum = draw(st.sampled_from([2**53, 2**62, FOREVER_MS]))
            minimum = draw(st.sampled_from([minimum, maximum]))
    else:
        minimum = draw(st.sampled_from([0, 1]))
        maximum = draw(st.sampled_from([minimum, 20]))
    return Rule(
        idle_min_ms=minimum,
        idle_max_ms=maximum,
        update=draw(UPDATES),
        ttl_ms=draw(st.one_of(OFF, OFF, spans(25))),
        ttl_update=draw(UPDATES),
        max_lifetime_ms=draw(st.one_of(OFF, OFF, spans(50))),
        remember_ms=draw(st.sampled_from([FOREVER_MS, None, 0, 3, 10])),
    )


# Where an access is aimed: at its key's deadline, at the last moment that does not re-arm, or
# simply later than everything so far; and how far off.
AIMS = st.sampled_from(
    [("deadline", off) for off in (-1, 0, 0, 1)] * 3
    + [("rearm", off) for off in (-1, 0, 1)] * 3
    + [("later", gap) for gap in (0, 0, 1, 1, 2, 3, 4, 5, 6, 25)]
)


class Aim:
    """Chooses the time of the next access to a key."""

    def __init__(self, rule: Rule, origin_ms: int) -> None:
        self.model = Reference(rule, {})
        self.now_ms = origin_ms

    def at(self, key: tuple[Any, ...], aim: str, off: int) -> int:
        life = self.model.lives.get(key)
        turn = None
        if life is not None and aim == "deadline":
            turn, _ = self.model.end(life)
        elif life is not None and aim == "rearm" and life.cleanup_at is not None:
            turn = life.cleanup_at - self.model.rule.idle_min_ms
        if turn is None or turn >= LAST_MS:
            return self.now_ms + abs(off)
        return turn + off

    def take(self, record: Record) -> None:
        assert record.t_ms is not None
        self.now_ms = max(self.now_ms, record.t_ms)
        self.model.take(record)


# From a run per batch to one run, from a row per segment to one segment.
MERGES = [
    MergePolicy(
        ratio=ratio,
        dense=dense,
        space=space,
        floor_rows=0,
        most_runs=most_runs,
        segment_rows=rows,
        segment_bytes=size,
    )
    for ratio, dense, space, most_runs in (
        *((0, 1e9, 1e9, 100), (0, 1e9, 1e9, 100), (0, 1e9, 1e9, 100), (0, 1e9, 1e9, 2)),
        *((1, 1e9, 1e9, 100), (1, 0.5, 1.4, 6), (4, 1e9, 1.4, 6), (1e9, 0, 1, 1)),
    )
    for rows, size in ((1, 1 << 28), (2, 1 << 28), (5, 300), (100_000, 1), (100_000, 1 << 28))
]
AT_LEAST = st.sampled_from([1, 6, 12])
ORDER: st.SearchStrategy[tuple[str, ...]] = st.sampled_from([(), (), ("seq",), ("seq", "weight")])
ORIGIN = st.sampled_from(ORIGINS_MS)
KINDS = st.sampled_from(list(KEYS))
BACK = st.sampled_from([0, 0, 0, 1, 3, 10, 40])
READ = st.sampled_from([False, False, True])
VARIANT = st.integers(0, VARIANTS - 1)


@st.composite
def cases(draw: st.DrawFn, *, is_sorted: bool) -> Case:
    """A case whose batches the table orders as a pipeline does, or takes as they are."""
    key_kind = draw(KINDS)
    pool = KEYS[key_kind][1][: draw(st.integers(1, 5))]
    order = draw(ORDER)
    rule = draw(rules())
    aim = Aim(rule, draw(ORIGIN))
    runs_back = not is_sorted and draw(st.booleans())
    with_reads = draw(st.booleans())
    drawn = st.tuples(st.sampled_from(pool), AIMS, BACK, VARIANT, READ)
    sequence = []
    for key, (place, off), back, variant, read in draw(
        st.lists(drawn, min_size=draw(AT_LEAST), max_size=24)
    ):
        t_ms = aim.at(key, place, off)
        if runs_back:
            t_ms -= back
        elif is_sorted:
            t_ms = max(t_ms, aim.now_ms)
        record = Record(
            key,
            t_ms,
            ROW_VALUES[variant],
            read=with_reads and read,
            order=tuple(ORDERS[name][1][variant % len(ORDERS[name][1])] for name in order),
        )
        aim.take(record)
        sequence.append(record)
    batches = draw(cuts(sequence))
    changes: tuple[tuple[int, Rule], ...] = ()
    if len(batches) > 1 and draw(st.sampled_from([False, False, False, True])):
        changing = draw(st.sets(st.integers(1, len(batches) - 1), min_size=1, max_size=4))
        changes = tuple((at, draw(rules())) for at in sorted(changing))
    at_batch_time = is_sorted and draw(st.integers(0, 5)) == 0
    if at_batch_time:
        batches = [as_one_time(batch) for batch in batches]
    mirrored = bool(changes) or draw(st.integers(0, 3)) == 0
    return Case(
        key_kind=key_kind,
        aggregates=draw(aggregate_texts()),
        order=order,
        rule=rule,
        changes=changes,
        batches=batches,
        sweeps=draw(free_sweeps(batches) if mirrored else harmless_sweeps(batches)),
        reference_sweeps=mirrored,
        is_sorted=is_sorted,
        at_batch_time=at_batch_time,
        weak_hash=draw(st.integers(0, 3)) == 0,
        parts=draw(st.sampled_from([1, 1, 2, 3])) if is_sorted else 1,
        shards=draw(st.sampled_from([1, 1, 2])),
        restores=tuple(draw(st.sampled_from([(False,), (True,), (False, True)]))),
        merges=tuple(draw(st.lists(st.sampled_from(MERGES), min_size=1, max_size=6))),
    )


@st.composite
def cuts(draw: st.DrawFn, sequence: list[Record]) -> list[list[Record]]:
    """The sequence in batches: one record each, all in one, or anything between."""
    way = draw(st.integers(0, 7))
    if way == 0:
        return [[record] for record in sequence]
    if way <= 3:
        return [sequence]
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=len(sequence)))
    ends = [*(end for end in accumulate(sizes) if end < len(sequence)), len(sequence)]
    return [sequence[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def as_one_time(batch: list[Record]) -> list[Record]:
    """The records in processing time: all at the time of their batch."""
    return [replace(record, t_ms=max(times(batch))) for record in batch]


def times(batch: Sequence[Record]) -> list[int]:
    return [record.t_ms for record in batch if record.t_ms is not None]


@st.composite
def harmless_sweeps(draw: st.DrawFn, batches: list[list[Record]]) -> list[int | None]:
    """Sweeps that may not change any result: none is past a time that is still to come."""
    found: list[int | None] = []
    for at in range(len(batches) - 1):
        lowest = min(t_ms for batch in batches[at + 1 :] for t_ms in times(batch))
        found.append(draw(st.sampled_from([None, lowest, lowest - 1, lowest - 3])))
    highest = max(t_ms for batch in batches for t_ms in times(batch))
    return [*found, highest + draw(st.sampled_from([0, 1, 5, 100]))]


@st.composite
def free_sweeps(draw: st.DrawFn, batches: list[list[Record]]) -> list[int | None]:
    """Sweeps at any time, also past records that are still to come."""
    everything = sorted({t_ms for batch in batches for t_ms in times(batch)})
    near = st.builds(int.__add__, st.sampled_from(everything), st.integers(-3, 12))
    return [draw(st.one_of(st.none(), near)) for _ in batches]
