"""Batched functions give what the form of one key gives, and what the slow model gives."""

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlestate import BatchedProcessFunction, Policy
from idlestate.testing import FunctionHarness
from tests.function_reference import Model
from tests.functions.scripted_batches import OPERATIONS, OUTPUT, Batched, Both
from tests.functions.test_function_law import (
    BASE_MS,
    POLICIES,
    SCHEMA,
    Record,
    cut,
    row,
    timedelta,
)

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
    function: BatchedProcessFunction, policy: Policy, delay_ms: int, *, in_order: bool
) -> FunctionHarness:
    return FunctionHarness(
        SCHEMA,
        key="key",
        function=function,
        output=OUTPUT,
        event_time="t",
        columns=["op", "n"],
        delay=timedelta(milliseconds=delay_ms),
        policy=policy,
        in_order=in_order,
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
    with mock.patch("idlestate.functions.wave_step.WAVE_COST", 0):
        waves = run(harness(both, policy, delay_ms, in_order=in_order), batches)
    assert run(harness(batched, policy, delay_ms, in_order=in_order), batches) == waves
    with mock.patch("idlestate.functions.wave_step.WAVE_COST", 10**9):
        alone = run(harness(both, policy, delay_ms, in_order=in_order), batches)
    assert alone == waves
    with mock.patch("idlestate.functions.wave_step.WAVE_COST", 2):
        assert run(harness(both, policy, delay_ms, in_order=in_order), batches) == waves


@settings(max_examples=60)
@given(
    FORMS, POLICIES, RECORDS, st.sets(st.integers(0, 40), max_size=8), st.integers(0, 60),
    st.booleans(),
)  # fmt: skip
def test_both_forms_give_the_same_rows_and_lives(
    forms: Any, policy: Policy, records: list[Record], cuts: set[int], delay_ms: int, in_order: bool
) -> None:
    check(forms, policy, [*cut(records, cuts), []], delay_ms, in_order=in_order)


@settings(max_examples=40)
@given(FORMS, POLICIES, RECORDS, st.sets(st.integers(0, 40), max_size=8), st.integers(0, 60))
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
