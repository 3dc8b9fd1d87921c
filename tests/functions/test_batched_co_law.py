"""Batched functions on two inputs give what the form of one key gives, and what the model gives."""

import json
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlestate import BatchedCoProcessFunction, Policy
from tests.functions.scripted_batches import OPERATIONS, OUTPUT, Batched, Both
from tests.functions.test_batched_law import KEYS
from tests.functions.test_co_functions import (
    Record,
    TwoSided,
    by_the_model,
    cut,
    harness,
    on_time,
    pair,
    timedelta,
)
from tests.functions.test_function_law import BASE_MS, POLICIES
from tests.lengths import law


class BatchedTwo(Batched, BatchedCoProcessFunction):
    """Left records do what they say; right ones too, with another number, and say so."""

    process_batch = BatchedCoProcessFunction.process_batch

    def process_batch1(self, rows: Any, ctx: Any) -> Any:
        yield from Batched.process_batch(self, rows, ctx)

    def process_batch2(self, rows: Any, ctx: Any) -> Any:
        n = len(ctx.keys)
        yield {
            "key": ctx.keys,
            "what": [f"right {word}" for word in rows.word.to_pylist()],
            "at": ctx.timestamps_ms,
            "count": pa.nulls(n),
            "text": pa.nulls(n),
        }
        renamed = SimpleNamespace(op=rows.word, n=pc.add(rows.n, 1))
        yield from Batched.process_batch(self, renamed, ctx)


class BothTwo(BatchedTwo, Both):
    process_element = TwoSided.process_element

    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield from Both.process_element(self, row, ctx)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield ctx.key, f"right {row.word}", ctx.timestamp_ms, None, None
        yield from Both.process_element(self, SimpleNamespace(op=row.word, n=row.n + 1), ctx)


def records(*more: str) -> Any:
    inputs, operations = st.sampled_from(["left", "right"]), st.sampled_from([*OPERATIONS, *more])
    return st.lists(
        st.tuples(inputs, KEYS, st.integers(0, 150), operations, st.integers(0, 9)), max_size=40
    )


FORMS = st.builds(lambda ttl_ms: [BatchedTwo(ttl_ms), BothTwo(ttl_ms)],
                  st.none() | st.integers(5, 60))  # fmt: skip
CUTS = st.sets(st.integers(0, 40), max_size=8)
DELAYS = st.tuples(st.integers(0, 60), st.integers(0, 60))


def run(
    function: Any,
    cost: int,
    policy: Policy,
    batches: Sequence[list[Record]],
    delays_ms: tuple[int, int],
    **more: Any,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and lives, if a call with many keys costs so much."""
    tested = harness(
        function,
        policy,
        output=OUTPUT,
        delay=timedelta(milliseconds=delays_ms[0]),
        right_delay=timedelta(milliseconds=delays_ms[1]),
        **more,
    )
    rows = []
    with mock.patch("idlestate.functions.hot_keys.WAVE_COST", cost):
        for batch in batches:
            tested.restart()
            rows += tested.batch([pair(each) for each in batch])
        rows += tested.finish()
    return rows, tested.lives()


def run_all(forms: Sequence[Any], *arguments: Any, **more: Any) -> Any:
    """Rows and lives, which are the same in all forms."""
    batched, both = forms
    ways = ((batched, 2), (both, 0), (both, 2), (both, 10**9))
    found = [run(*way, *arguments, **more) for way in ways]
    told = [(Counter(map(repr, rows)), sorted(map(repr, lives))) for rows, lives in found]
    assert told[0] == told[1] == told[2] == told[3]
    return found[0]


def check(
    forms: Sequence[Any], policy: Policy, given: list[Record], cuts: set[int], delays_ms: Any
) -> None:
    batches = cut(given, cuts)
    rows, lives = run_all(forms, policy, batches, delays_ms)
    kept = on_time(batches, dict(zip(("left", "right"), delays_ms, strict=True)))
    model = by_the_model(forms[1], policy, kept)
    model.sweep(BASE_MS + max((each[2] for each in kept), default=0))
    assert Counter(tuple(each.values()) for each in rows) == Counter(model.rows)
    assert {each["key"] for each in lives} == set(model.lives)


@law(12, FORMS, POLICIES, records(), CUTS, DELAYS)
def test_batched_functions_on_two_inputs_do_what_the_model_does(
    forms: Any, policy: Policy, given: list[Record], cuts: set[int], delays_ms: Any
) -> None:
    check(forms, policy, given, cuts, delays_ms)


@law(10, FORMS, POLICIES, records(), CUTS, DELAYS)
def test_both_forms_on_two_inputs_agree_on_records_out_of_order(
    forms: Any, policy: Policy, given: list[Record], cuts: set[int], delays_ms: Any
) -> None:
    run_all(forms, policy, [*cut(given, cuts), []], delays_ms, in_order=False)


@settings(max_examples=15)
@given(FORMS, POLICIES, records(), CUTS)
def test_keys_of_two_inputs_behind_equal_hashes_are_told_apart_by_waves(
    forms: Any, policy: Policy, given: list[Record], cuts: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "idlestate.pipeline.marked_table.hash_keys",
            lambda keys: np.zeros(len(keys[0]), dtype=np.int64),
        )
        check(forms, policy, given, cuts, (200, 200))


@law(15, FORMS, POLICIES, records("fail"), CUTS)
def test_both_forms_reject_the_same_records_of_two_inputs(
    forms: Any, policy: Policy, given: list[Record], cuts: set[int]
) -> None:
    found = []
    for function in forms:
        rows, lives = run(
            function, 2, policy, cut(given, cuts), (5, 5), rejects=True, on_error="reject"
        )
        for each in rows:
            if each["reason"] == "function_error":
                told = json.loads(each["rejected"])
                name, _, method = told["method"].partition(".")
                assert name == type(function).__name__
                method = method.replace("batch", "element").removesuffix("s")
                each["rejected"] = [method, told["key"], told["time"], told["row"]]
        found.append((Counter(map(repr, rows)), sorted(map(repr, lives))))
    assert found[0] == found[1]
