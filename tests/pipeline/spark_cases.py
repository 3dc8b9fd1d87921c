"""Seeded cases of the law for Spark: sequences aimed at the turning points of the rule.

A query with its start, restart and read-back costs seconds, so the cases of one setting run in
one query: the first key column tells them apart, everything else of their keys they share.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from tests.backends.law_aggregates import COLUMNS
from tests.backends.law_cases import KEYS, ORDERS, ROW_VALUES
from tests.pipeline.streams import TIMESTAMP
from tests.reference import FOREVER_MS, ON_READ_AND_WRITE, Record, Reference, Rule
from tests.reference_pipeline import make_sequence

CASES = 3
BACKGROUND = CASES
"""The number that stands for all keys of the background."""
DAY_MS = 86_400_000
ORIGIN_MS = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Batch = list[Record]


@dataclass(frozen=True)
class Setting:
    """What the cases of one query share."""

    name: str
    rule: Rule
    key_kind: str
    aggregates: dict[str, str]
    order: tuple[str, ...] = ()
    delay_ms: int = 0
    batches: int = 4
    stops_after: tuple[int, ...] = (2,)
    """Numbers of batches after which the query is stopped and started anew."""
    background: int = 0
    """Keys a day ahead of the cases, a few of them touched in every batch: beside them a batch is
    small, so that shards are made of several runs."""

    @property
    def keys(self) -> list[str]:
        return ["case", *(f"k{at}" for at in range(len(KEYS[self.key_kind][0])))]

    @property
    def schema(self) -> pa.Schema:
        kinds = KEYS[self.key_kind][0]
        return pa.schema(
            [
                ("case", pa.int32()),
                *((f"k{at}", kind) for at, kind in enumerate(kinds)),
                ("event_time", TIMESTAMP),
                ("looks", pa.bool_()),
                *((name, ORDERS[name][0]) for name in self.order),
                *((name, kind) for name, (kind, _) in COLUMNS.items()),
            ]
        )

    def rows(self, batch: Batch) -> list[dict[str, Any]]:
        """A batch as rows of the input."""
        return [
            {
                **dict(zip(self.keys, record.key, strict=True)),
                **dict(zip(self.order, record.order, strict=True)),
                **record.values,
                "looks": record.read,
            }
            for record in batch
        ]


SETTINGS = [
    Setting(
        "idle",
        Rule(idle_min_ms=6, idle_max_ms=9, remember_ms=FOREVER_MS),
        "string",
        {"n": "count", "newest": "max(event_time)", "total": "sum(i64)", "mean": "avg(i32)"},
        batches=6,
        stops_after=(3,),
    ),
    Setting(
        "idle-reads-count",
        Rule(idle_min_ms=5, idle_max_ms=12, update=ON_READ_AND_WRITE),
        "mixed",
        {
            "n": "count",
            "first": "first(text)",
            "last": "last(dec)",
            "at": "max_by(i8, stamp)",
            "few": "collect_list(text, 3)",
            "top": "top_n(dec, 2, day)",
            "different": "count(distinct raw, 3)",
            "middle": "approx_percentile(i32, 0.5)",
        },
        order=("seq",),
        delay_ms=4,
    ),
    Setting(
        "one-window",
        Rule(idle_min_ms=7, idle_max_ms=7, remember_ms=FOREVER_MS),
        "binary",
        {"n": "count(text)", "low": "min(text)", "high": "max(raw)", "sum": "sum(dec)"},
        delay_ms=25,
        stops_after=(1,),
    ),
    Setting(
        "idle-and-ttl",
        Rule(idle_min_ms=4, idle_max_ms=12, ttl_ms=9, update=ON_READ_AND_WRITE),
        "int64",
        {"n": "count", "sum": "sum(f64)", "mean": "avg(wide)", "low": "min_by(day, f32)"},
        delay_ms=2,
        stops_after=(3,),
    ),
    Setting(
        "ttl-from-reads",
        Rule(ttl_ms=8, ttl_update=ON_READ_AND_WRITE, update=ON_READ_AND_WRITE),
        "timestamp",
        {"n": "count", "first": "first(i16)", "last": "last(f32)", "flags": "count(flag)"},
        order=("seq", "weight"),
        batches=5,
    ),
    Setting(
        "lifetime",
        Rule(idle_min_ms=5, idle_max_ms=10, max_lifetime_ms=14, remember_ms=5),
        "date",
        {"n": "count", "low": "min(stamp)", "high": "max(wild)", "mean": "avg(f32)"},
        delay_ms=7,
    ),
    Setting(
        "all-three",
        Rule(
            idle_min_ms=3,
            idle_max_ms=8,
            ttl_ms=10,
            ttl_update=ON_READ_AND_WRITE,
            max_lifetime_ms=20,
            remember_ms=FOREVER_MS,
        ),
        "boolean",
        {"n": "count", "first": "first(flag)", "last": "last(event_time)", "sum": "sum(wide)"},
        order=("weight",),
        delay_ms=11,
    ),
    Setting(
        "swapped-keys",
        Rule(idle_min_ms=2, idle_max_ms=30, update=ON_READ_AND_WRITE, remember_ms=FOREVER_MS),
        "swapped",
        {"n": "count(dec)", "sum": "sum(i8)", "mean": "avg(dec)", "by": "min_by(text, i32)"},
        delay_ms=1,
        stops_after=(1,),
    ),
    Setting(
        "many-runs",
        Rule(idle_min_ms=4, idle_max_ms=9, ttl_ms=20, remember_ms=FOREVER_MS),
        "int64",
        {"n": "count", "sum": "sum(i64)", "first": "first(text)", "newest": "max(event_time)"},
        delay_ms=DAY_MS + 9,
        batches=8,
        stops_after=tuple(range(1, 8)),
        background=3000,
    ),
]


FORMS = {"idle-reads-count": (), "all-three": pytest.mark.long, "many-runs": pytest.mark.long}
VARIANT = (pytest.mark.long, pytest.mark.variant)
PARAMS = [
    pytest.param(each, id=each.name, marks=FORMS.get(each.name, VARIANT)) for each in SETTINGS
]


@dataclass
class Stream:
    """The input of one query: its cases' records, batch by batch."""

    setting: Setting
    batches: list[Batch]

    @property
    def stretches(self) -> list[list[Batch]]:
        """The batches between two starts of the query."""
        cuts = [0, *self.setting.stops_after, len(self.batches)]
        return [self.batches[first:end] for first, end in pairwise(cuts)]

    def case(self, number: int) -> list[Batch]:
        """One case's share of every batch."""
        return [[r for r in batch if case_of(r.key) == number] for batch in self.batches]

    def reference(self, number: int) -> Reference:
        """One case, record by record, with one sweep at the end of the input."""
        reference = Reference(self.setting.rule, self.setting.aggregates)
        for batch_id, batch in enumerate(self.case(number)):
            reference.batch_id = batch_id
            for record in make_sequence(batch):
                reference.take(record)
        reference.sweep(self.highest_ms - self.setting.delay_ms - 1)
        return reference

    @property
    def highest_ms(self) -> int:
        return max(time_of(record) for batch in self.batches for record in batch)


def case_of(key: tuple[Any, ...]) -> int:
    """The number of the case that a key belongs to."""
    return min(int(key[0]), BACKGROUND)


def time_of(record: Record) -> int:
    assert record.t_ms is not None
    return record.t_ms


def make_stream(setting: Setting) -> Stream:
    """The first of the setting's seeds whose cases all hold a returning key and a counting read."""
    for seed in range(1000):
        stream = _Maker(setting, random.Random(f"{setting.name} {seed}")).make()
        if all(_is_rich(stream, number) for number in range(CASES)):
            return stream
    raise AssertionError(f"no seed makes rich cases of {setting.name}")


def _is_rich(stream: Stream, number: int) -> bool:
    reference = stream.reference(number)
    looked = any(record.read for batch in stream.case(number) for record in batch)
    return looked and reference.counts["returning_keys"] > 0 and all(stream.case(number))


class _Maker:
    """Draws records with the reference running alongside, to aim at deadlines and re-armings."""

    def __init__(self, setting: Setting, chance: random.Random) -> None:
        self.setting = setting
        self.chance = chance
        self.models = [Reference(setting.rule, {}) for _ in range(CASES)]
        self.newest: dict[tuple[Any, ...], int] = {}
        self.highest_ms = ORIGIN_MS

    def make(self) -> Stream:
        batches: list[Batch] = []
        for _ in range(self.setting.batches):
            # What comes is not late, and of no key anything older than what came before.
            floor_ms = self.highest_ms - self.setting.delay_ms
            batch = [record for case in range(CASES) for record in self.records(case, floor_ms)]
            batch += self.background(max(map(time_of, batch)) + DAY_MS, is_first=not batches)
            self.chance.shuffle(batch)
            self.highest_ms = max(map(time_of, batch))
            batches.append(batch)
        return Stream(self.setting, batches)

    def records(self, case: int, floor_ms: int) -> Batch:
        pool = KEYS[self.setting.key_kind][1]
        return [
            self.record((case, *self.chance.choice(pool)), floor_ms)
            for _ in range(self.chance.randint(5, 9))
        ]

    def background(self, t_ms: int, *, is_first: bool) -> Batch:
        """Every key of the background once, later a hundredth of them."""
        number, pool = self.setting.background, KEYS[self.setting.key_kind][1]
        keys = [(BACKGROUND + at, *pool[at % len(pool)]) for at in range(number)]
        chosen = keys if is_first else self.chance.sample(keys, number // 100)
        return [self.made(key, t_ms + self.chance.randint(0, 6)) for key in chosen]

    def record(self, key: tuple[Any, ...], floor_ms: int) -> Record:
        model = self.models[key[0]]
        t_ms = max(floor_ms, self.newest.get(key, 0), self.aim(model, key, floor_ms))
        self.newest[key] = t_ms
        record = self.made(key, t_ms)
        model.take(record)
        return record

    def made(self, key: tuple[Any, ...], t_ms: int) -> Record:
        """A record with random values."""
        chance = self.chance
        variant = chance.randrange(len(ROW_VALUES))
        moment = EPOCH + timedelta(milliseconds=t_ms, microseconds=chance.randrange(1000))
        return Record(
            key,
            t_ms,
            {**ROW_VALUES[variant], "event_time": moment},
            read=chance.random() < 0.25,
            order=tuple(chance.choice(ORDERS[name][1]) for name in self.setting.order),
        )

    def aim(self, model: Reference, key: tuple[Any, ...], floor_ms: int) -> int:
        """Near a deadline or a re-arming of the key, or a little later than the others."""
        way, off = self.chance.randrange(10), self.chance.randint(-1, 1)
        life = model.lives.get(key)
        if life is not None and way < 4:
            deadline, _ = model.end(life)
            if deadline is not None:
                return deadline + off
        if life is not None and way < 6 and life.cleanup_at is not None:
            return life.cleanup_at - model.rule.idle_min_ms + off
        return floor_ms + self.chance.randint(0, 6)
