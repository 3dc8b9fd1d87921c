"""Batched functions give what the form of one key gives, and what the slow model gives."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlestate import BatchedProcessFunction, Policy, UpdateType
from idlestate.state import StateTtlConfig, ValueStateDescriptor
from idlestate.testing import FunctionHarness, check_cuts
from tests.function_reference import Model
from tests.functions.scripted_batches import OPERATIONS, OUTPUT, Batched, Both
from tests.functions.test_function_law import (
    BASE_MS,
    EPOCH,
    POLICIES,
    SCHEMA,
    Record,
    cut,
    row,
    timedelta,
)
from tests.lengths import law

RENEWS = UpdateType.ON_READ_AND_WRITE
KEYS = st.sampled_from("aaaaabcdef")
RECORDS = st.lists(
    st.tuples(KEYS, st.integers(0, 150), st.sampled_from(OPERATIONS), st.integers(0, 9)),
    max_size=40,
)
FORMS = st.builds(
    lambda ttl_ms, renews: [
        Batched(ttl_ms, renews=renews),
        Both(ttl_ms, renews=renews),
    ],
    st.none() | st.integers(5, 60),
    # A call reads what it wants of all its keys, so only one form renews what it does not need.
    st.just(value=False),
)


def harness(
    function: BatchedProcessFunction,
    policy: Policy,
    delay_ms: int,
    *,
    in_order: bool,
    **more: Any,
) -> FunctionHarness:
    return FunctionHarness(
        more.pop("schema", SCHEMA),
        key="key",
        function=function,
        output=OUTPUT,
        event_time="t",
        columns=["op", "n"],
        delay=timedelta(milliseconds=delay_ms),
        policy=policy,
        in_order=in_order,
        **more,
    )


def run(tested: FunctionHarness, batches: Sequence[Sequence[Record]]) -> Any:
    """Rows and lives; timers of one time and name are a set."""
    rows = []
    for batch in batches:
        tested.restart()
        rows += tested.batch([*map(row, batch)])
    rows += tested.finish()
    return Counter(map(repr, rows)), sorted(map(repr, tested.lives()))


def check(
    forms: Sequence[Any], policy: Policy, batches: Any, delay_ms: int, *, in_order: bool
) -> None:
    batched, both = forms
    with mock.patch("idlestate.functions.hot_keys.WAVE_COST", 0):
        waves = run(harness(both, policy, delay_ms, in_order=in_order), batches)
    assert run(harness(batched, policy, delay_ms, in_order=in_order), batches) == waves
    with mock.patch("idlestate.functions.hot_keys.WAVE_COST", 10**9):
        alone = run(harness(both, policy, delay_ms, in_order=in_order), batches)
    assert alone == waves
    with mock.patch("idlestate.functions.hot_keys.WAVE_COST", 2):
        assert run(harness(both, policy, delay_ms, in_order=in_order), batches) == waves


@law(15,
    FORMS, POLICIES, RECORDS, st.sets(st.integers(0, 40), max_size=8), st.integers(0, 60),
    st.booleans(),
)  # fmt: skip
def test_both_forms_give_the_same_rows_and_lives(
    forms: Any, policy: Policy, records: list[Record], cuts: set[int], delay_ms: int, in_order: bool
) -> None:
    check(forms, policy, [*cut(records, cuts), []], delay_ms, in_order=in_order)


@law(12, FORMS, POLICIES, RECORDS, st.sets(st.integers(0, 40), max_size=8), st.integers(0, 60))
def test_a_batched_function_does_what_the_model_does(
    forms: Any, policy: Policy, records: list[Record], cuts: set[int], delay_ms: int
) -> None:
    batched, both = forms
    model = Model(both, list(both.states.values()), policy)
    tested, found, watermark_ms = harness(batched, policy, delay_ms, in_order=False), [], 0
    for batch in [*cut(records, cuts), [], []]:
        found += [tuple(each.values()) for each in tested.batch([*map(row, batch)])]
        rows = [each for each in batch if BASE_MS + each[1] > watermark_ms]
        for key, t_ms, op, n in sorted(rows, key=lambda each: (each[1], each[2], each[3])):
            model.record(key, BASE_MS + t_ms, SimpleNamespace(op=op, n=n))
        model.sweep(watermark_ms)
        highest_ms = max((BASE_MS + each[1] for each in batch), default=0)
        watermark_ms = max(watermark_ms, highest_ms - delay_ms - 1)
    assert Counter(found) == Counter(model.rows)
    assert {each["key"] for each in tested.lives()} == set(model.lives)


READ_SCHEMA = {**SCHEMA, "is_read": pa.bool_()}
ALL = UpdateType.ON_READ_AND_WRITE
READ_POLICIES = POLICIES | st.sampled_from(
    [
        Policy(idle_min_ms=30, idle_max_ms=45, min_gap="0s", update=ALL),
        Policy(ttl_ms=40, ttl_update=ALL),
        Policy(idle_min_ms=20, idle_max_ms=50, ttl_ms=45, min_gap="0s", ttl_update=ALL),
    ]
)


def is_read(record: Record) -> bool:
    """Half of the records that change nothing."""
    return record[2] in ("look", "nothing") and record[3] % 2 == 1


@law(15,
    FORMS, READ_POLICIES, RECORDS, st.sets(st.integers(0, 40), max_size=8), st.integers(0, 60),
)  # fmt: skip
def test_reads_are_the_same_in_both_forms_and_in_the_model(
    forms: Any, policy: Policy, records: list[Record], cuts: set[int], delay_ms: int
) -> None:
    model = Model(forms[1], list(forms[1].states.values()), policy)
    batches, watermark_ms = [*cut(records, cuts), [], []], 0
    for batch in batches:
        rows = [each for each in batch if BASE_MS + each[1] > watermark_ms]
        for each in sorted(rows, key=lambda each: (each[1], is_read(each), each[2], each[3])):
            key, t_ms, op, n = each
            given = SimpleNamespace(op=op, n=n)
            model.record(key, BASE_MS + t_ms, given, is_read=is_read(each))
        model.sweep(watermark_ms)
        highest_ms = max((BASE_MS + each[1] for each in batch), default=0)
        watermark_ms = max(watermark_ms, highest_ms - delay_ms - 1)
    found = []
    for function, cost in ((forms[0], 2), (forms[1], 0), (forms[1], 2), (forms[1], 10**9)):
        with mock.patch("idlestate.functions.hot_keys.WAVE_COST", cost):
            tested = harness(
                function, policy, delay_ms, in_order=False, schema=READ_SCHEMA, read_when="is_read"
            )
            rows = [
                each
                for batch in batches
                for each in tested.batch([row(each) | {"is_read": is_read(each)} for each in batch])
            ]
        assert Counter(tuple(each.values()) for each in rows) == Counter(model.rows)
        found.append(sorted(map(repr, tested.lives())))
    assert {each["key"] for each in tested.lives()} == set(model.lives)
    assert found[0] == found[1] == found[2] == found[3]


@settings(max_examples=20)
@given(FORMS, POLICIES, RECORDS, st.sets(st.integers(0, 40), max_size=8))
def test_keys_behind_equal_hashes_are_told_apart_by_waves(
    forms: Any, policy: Policy, records: list[Record], cuts: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "idlestate.pipeline.marked_table.hash_keys",
            lambda keys: np.zeros(len(keys[0]), dtype=np.int64),
        )
        check(forms, policy, [*cut(records, cuts), []], 0, in_order=True)


FAILING = st.lists(
    st.tuples(KEYS, st.integers(0, 150), st.sampled_from([*OPERATIONS, "fail"]), st.integers(0, 9)),
    max_size=40,
)


@law(12, FORMS, POLICIES, FAILING, st.sets(st.integers(0, 40), max_size=8))
def test_both_forms_reject_the_same_records(
    forms: Any, policy: Policy, records: list[Record], cuts: set[int]
) -> None:
    found = []
    for function in forms:
        tested = harness(function, policy, 5, in_order=False, rejects=True, on_error="reject")
        rows = [
            each for batch in [*cut(records, cuts), []] for each in tested.batch([*map(row, batch)])
        ]
        for each in rows:
            if each["rejected"] is not None:
                told = json.loads(each["rejected"])
                each["rejected"] = [told.get("key"), told.get("time"), told.get("row")]
        found.append((Counter(map(repr, rows)), sorted(map(repr, tested.lives()))))
    assert found[0] == found[1]


STRUCT = pa.struct([("low", pa.float64()), ("at", pa.date32())])
VALUES: dict[str, tuple[pa.DataType, Any, list[Any]]] = {
    "flag": (pa.bool_(), False, [True, False, None]),
    "small": (pa.int8(), 7, [-128, 127, None]),
    "whole": (pa.uint64(), None, [2**64 - 1, 0, None]),
    "share": (pa.float64(), 0.5, [float("inf"), -0.0, float("nan"), None]),
    "third": (pa.float32(), None, [0.5, float("nan"), None]),
    "name": (pa.string(), "é", ["", "ß\n", None]),
    "bytes": (pa.binary(), None, [b"", b"\0", None]),
    "day": (pa.date32(), None, [date(1960, 2, 29), None]),
    "at": (pa.timestamp("us"), None, [datetime(2262, 1, 1), None]),  # noqa: DTZ001 - of a type without a zone
    "price": (pa.decimal128(5, 2), Decimal("1.50"), [Decimal("-999.99"), None]),
    "pair": (STRUCT, None, [{"low": None, "at": date(2000, 1, 1)}, None]),
}


class Values(BatchedProcessFunction):
    def __init__(self, ttl: StateTtlConfig | None = None) -> None:
        self.states = [
            ValueStateDescriptor(name=name, value_type=kind, default=default, ttl=ttl)
            for name, (kind, default, _) in VALUES.items()
        ]

    def open(self, ctx: Any) -> None:
        for each in self.states:
            ctx.state(each)

    def process_batch(self, rows: Any, ctx: Any) -> Any:
        found = [pa.array(ctx.state(each).value(), each.value_type) for each in self.states]
        text = [repr(each) for each in zip(*(column.to_pylist() for column in found), strict=True)]
        for each in self.states:
            values = VALUES[each.name][2]
            chosen = [values[n % len(values)] for n in rows.n.to_pylist()]
            ctx.state(each).update(pa.array(chosen, each.value_type, from_pandas=False))
        yield {"id": ctx.keys[0], "n": ctx.keys[1], "what": text}

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield *ctx.key, repr(tuple(ctx.state(each).value() for each in self.states))
        for each in self.states:
            values = VALUES[each.name][2]
            ctx.state(each).update(values[row.n % len(values)])


@pytest.mark.parametrize(
    "ttl",
    [pytest.param(None, marks=pytest.mark.long), StateTtlConfig(ttl="30s", update_type=RENEWS)],
)
def test_values_of_every_type_and_several_keys_are_the_same_in_both_forms(ttl: Any) -> None:
    check_cuts(
        lambda: FunctionHarness(
            {"id": pa.string(), "k": pa.int32(), "n": pa.int32(), "t": SCHEMA["t"]},
            key=["id", "k"],
            function=Values(ttl),
            output="id string, n int, what string",
            event_time="t",
            policy=Policy(ttl="1h"),
            in_order=True,
        ),
        [
            {
                "id": None if at % 5 == 0 else "ab"[at % 2],
                "k": at % 3,
                "n": at * 7 % 13,
                "t": EPOCH + timedelta(days=1, seconds=at if at < 40 else 10 * at),
            }
            for at in range(12)
        ],
        runs=2,
    )
