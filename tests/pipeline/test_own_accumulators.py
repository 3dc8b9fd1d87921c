"""Accumulators that users write, in the testing harness: shapes, errors, changed definitions."""

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from idlestate import Accumulator, Policy
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.definition_change import compare_definitions
from idlestate.backends.shards.own_accumulator import AccumulatorError
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.errors import RefusedError
from idlestate.retention.policy import TimeDomain
from idlestate.testing import RetainHarness
from tests.docs_pages import blocks

START = datetime(2025, 3, 3, tzinfo=UTC)
TYPES = {"k": pa.string(), "x": pa.int64(), "s": pa.string(), "t": pa.timestamp("us", "UTC")}


class Longest(Accumulator):
    """The longest text, and how many values of x there were."""

    state = {"text": pa.string(), "n": pa.int64()}  # noqa: RUF012 - as users write it
    result_type = pa.list_(pa.string())

    def init(self) -> Any:
        return None, 0

    def update(self, state: list[pa.Array], columns: list[pa.Array]) -> Any:
        text, values = columns
        assert [each.to_pylist() for each in state] == [[None] * len(text), [0] * len(text)]
        return text, values.is_valid().cast(pa.int64())

    def merge(self, state: list[pa.Array], group: Any, groups: int) -> Any:
        text, n = state
        length = pc.utf8_length(text).fill_null(-1).to_numpy()
        order = np.lexsort((text.fill_null("").to_numpy(zero_copy_only=False), length, group))
        last = np.flatnonzero(np.append(np.diff(group[order]), 1))
        return text.take(pa.array(order[last])), np.bincount(group, n.to_numpy(), groups).astype(
            int
        )

    def result(self, state: list[pa.Array]) -> Any:
        pairs = zip(state[0].to_pylist(), state[1].to_pylist(), strict=True)
        return pa.array([[text, str(n)] for text, n in pairs], self.result_type)


class Broken(Longest):
    """Raises, or returns what it should not, where the test says so."""

    place, what = "", ""

    def _broken(self, place: str, found: Any) -> Any:
        if place != self.place:
            return found
        if self.what == "raises":
            raise KeyError("oh")
        return {"one row too many": [pa.concat_arrays([found[0], found[0]]), *found[1:]]}.get(
            self.what, {"a column too few": found[:1], "nothing": None}.get(self.what)
        )

    def update(self, state: list[pa.Array], columns: list[pa.Array]) -> Any:
        return self._broken("update", super().update(state, columns))

    def merge(self, state: list[pa.Array], group: Any, groups: int) -> Any:
        return self._broken("merge", super().merge(state, group, groups))

    def result(self, state: list[pa.Array]) -> Any:
        return self._broken("result", super().result(state))


def harness(*aggregates: Accumulator) -> RetainHarness:
    return RetainHarness(
        TYPES | {"looks": pa.bool_()},
        key="k",
        event_time="t",
        delay="1h",
        aggregates={f"a{at}": each for at, each in enumerate(aggregates)},
        policy=Policy(idle_min="10m", idle_max="15m"),
        read_when="looks",
    )


def row(key: str, minute: int, text: str | None, x: int | None, looks: bool = False) -> Any:
    t = START + timedelta(minutes=minute)
    return {"k": key, "t": t, "s": text, "x": x, "looks": looks}


ROWS = [
    row("a", 0, "one", 1),
    row("a", 1, "three", None),
    row("b", 1, None, 5),
    row("a", 2, "seven times", 2, looks=True),
    row("a", 3, "two", 2),
    row("a", 60, "other", None),
]
LIVES = {("a", ("three", "2")), ("a", ("other", "0")), ("b", (None, "1"))}


@pytest.mark.parametrize("size", [1, 2, 6])
def test_results_do_not_depend_on_batches(size: int) -> None:
    operator = harness(Longest("s", "x"))
    rows = Random(size).sample(ROWS, len(ROWS)) if size == 6 else ROWS
    changes = [each for at in range(0, 6, size) for each in operator.batch(rows[at : at + size])]
    ended = [each for each in [*changes, *operator.finish()] if each["change"] == "expire"]
    found = {(each["k"], tuple(each["a0"])) for each in [*ended, *operator.lives()]}
    assert found == LIVES


def test_names_of_columns_are_found_in_any_case() -> None:
    operator = harness(Longest("S", "X"))
    assert [each["a0"] for each in operator.batch(ROWS[:1])] == [["one", "1"]]


def test_the_example_of_the_docs_runs() -> None:
    (example,) = [each for each in blocks("docs/aggregates.md") if each.language == "python"]
    exec(example.text, {"__name__": "example"})


WRONG = {
    ("update", "raises"): "update raised KeyError: 'oh'",
    ("merge", "raises"): "merge raised KeyError: 'oh'",
    ("result", "raises"): "result raised KeyError: 'oh'",
    ("update", "a column too few"): "update raised ValueError: it must return the columns text, n",
    ("merge", "nothing"): "merge raised ValueError: it must return the columns text, n",
    ("merge", "one row too many"): "merge raised ValueError: it must return 1 rows, not 2",
    ("update", "one row too many"): "update raised ValueError: it must return 2 rows, not 4",
}


@pytest.mark.parametrize(("place", "what"), WRONG)
def test_an_error_names_the_aggregate_and_leaves_state_as_it_was(
    place: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = harness(Broken("s", "x"))
    operator.batch(ROWS[:1])
    before = operator.lives()
    monkeypatch.setattr(Broken, "place", place)
    monkeypatch.setattr(Broken, "what", what)
    with pytest.raises(AccumulatorError) as raised:
        operator.batch(ROWS[:2])
    assert str(raised.value).startswith("aggregate a0 (")
    assert str(raised.value).endswith(f":Broken): {WRONG[place, what]}")
    monkeypatch.setattr(Broken, "place", "")
    assert operator.lives() == before


class Undeclared(Longest):
    state = None  # type: ignore[assignment]


class TooFew(Longest):
    def init(self) -> Any:
        return (None,)


class Half(Longest):
    def init(self) -> Any:
        return "", 0.5


class Lists(Longest):
    state = {"text": pa.list_(pa.string()), "n": pa.int64()}  # noqa: RUF012


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (Undeclared("s", "x"), "needs a mapping `state` of names to Arrow types, a `result_type`"),
        (TooFew("s", "x"), "an `init` that returns a value for each column"),
        (Half("s", "x"), "0.5 would become 0"),
        (Lists("s", "x"), "declares text of type list<item: string>; use numbers, booleans"),
        (Longest("s", "y"), "column y of .* not found"),
        (Longest("s", "a, b"), "column a, b of .* not found"),
    ],
)
def test_what_cannot_be_computed_is_refused(made: Accumulator, reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        harness(made)


@pytest.mark.parametrize("column", [None, 5, b"price", ["price"]])
def test_a_column_of_an_accumulator_is_a_name(column: Any) -> None:
    with pytest.raises(RefusedError, match=r"Longest: .* not the name of a column; pass a string"):
        Longest(column)


def test_a_class_that_cannot_be_imported_is_refused() -> None:
    for text, reason in (
        ("no_such_module:Sum(x)", "no_such_module .* cannot be imported here"),
        ("json:dumps(x)", "json:dumps is not found here, or not an idlestate.Accumulator"),
    ):
        with pytest.raises(RefusedError, match=reason):
            harness_of_text(text)


def harness_of_text(text: str) -> RetainHarness:
    policy = Policy(idle_min="10m", idle_max="15m")
    return RetainHarness(TYPES, key="k", event_time="t", aggregates={"a": text}, policy=policy)


def test_text_names_an_accumulator_too() -> None:
    operator = harness_of_text(f"{__name__}:Longest(s, x)")
    (found,) = operator.batch([{"k": "a", "t": START, "s": "one", "x": 1}])
    assert found["a"] == ["one", "1"]


# ---------------------------------------------------------------- definitions


def definition(kind: type[Accumulator], name: str = "a") -> Definition:
    text = f"{kind.__module__}:{kind.__qualname__}(s, x)"
    found = aggregation({name: text}, TYPES, classes={text.partition("(")[0]: kind})
    return Definition.of(TableSpec((("k", pa.string()),), found), TimeDomain.EVENT)


def renewed(name: str = "Longest", **changed: Any) -> type[Accumulator]:
    """The class after its code has changed."""
    kind = type(name, (Longest,), changed)
    kind.__module__, kind.__qualname__ = Longest.__module__, name
    return kind


def became(before: Definition, after: Definition) -> list[tuple[str, str]]:
    return [(each.name, each.became) for each in compare_definitions(before, after).changes]


def test_code_and_results_may_change_and_the_state_may_not() -> None:
    before = Definition.from_json(json.loads(json.dumps(definition(Longest).to_json())))
    assert before == definition(Longest)
    assert became(before, definition(renewed(init=lambda _: ("", 0)))) == [("a", "kept")]
    assert became(before, definition(renewed(result_type=pa.string()))) == [("a", "kept")]
    wider = definition(renewed(state={"text": pa.string(), "n": pa.float64()}))
    (refusal,) = compare_definitions(before, wider).refusals
    assert refusal.endswith(
        "its state was text: string, n: int64, is now text: string, n: double: give the aggregate "
        "another name"
    )
    assert "was " in compare_definitions(before, definition(renewed("Other"))).refusals[0]


def test_a_class_that_is_gone_may_be_dropped_but_not_used() -> None:
    gone = definition(renewed("Gone"))
    assert became(gone, definition(Longest, "b")) == [("b", "added"), ("a", "dropped")]
    accumulator = gone.spec().kind.aggregates[0].accumulator
    with pytest.raises(RefusedError, match="Gone is not found here"):
        accumulator.result(accumulator.lift({}, np.zeros(1, dtype=bool)))


def test_stored_state_of_another_form_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    before = definition(Longest)
    monkeypatch.setattr(Longest, "state", {"text": pa.string(), "m": pa.int64()})
    accumulator = before.spec().kind.aggregates[0].accumulator
    with pytest.raises(AccumulatorError, match="declares text: string, m: int64, but the stored"):
        accumulator.result(accumulator.lift({}, np.zeros(1, dtype=bool)))
