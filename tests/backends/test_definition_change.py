"""What becomes of each aggregate when a definition changes."""

import json
from collections.abc import Mapping

import pyarrow as pa
import pytest

from idlestate import hopping, session, tumbling
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.bounded_over import over_kind
from idlestate.backends.shards.deduplication import Keep, deduplication
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.definition_change import Takeover, check_renamed, compare_definitions
from idlestate.backends.shards.frames import Frame, FrameUnit
from idlestate.backends.shards.function_state import FunctionState
from idlestate.backends.shards.function_state_columns import StateColumns
from idlestate.backends.shards.operator_kind import INPUT_NUMBER
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import TimeDomain
from idlestate.retention.windows import Windows

TYPES = {
    "k": pa.string(),
    "x": pa.int32(),
    "f": pa.float32(),
    "d": pa.decimal128(10, 2),
    "s": pa.string(),
}


def definition(
    texts: Mapping[str, str],
    renamed: Mapping[str, str] | None = None,
    order: tuple[str, ...] = (),
    **types: pa.DataType,
) -> Definition:
    known = TYPES | types
    spec = TableSpec(
        (("k", known["k"]),),
        aggregation(texts, known, order),
        tuple((name, known[name]) for name in order),
    )
    return Definition.of(spec, TimeDomain.EVENT, renamed)


def found(takeover: Takeover) -> dict[str, str]:
    return {each.name: each.became for each in takeover.changes}


def ids(each: Definition) -> dict[str, int]:
    return {name: number for name, _, number in each.aggregates}


def test_it_is_read_back_with_its_ids() -> None:
    before = definition({"n": "count", "top": "max(x)"})
    after = compare_definitions(before, definition({"top": "max(x)", "last": "last(s)"})).definition
    again = Definition.from_json(json.loads(json.dumps(after.to_json())))
    assert again == after
    assert {each.name: each.id for each in again.spec().kind.aggregates} == {"top": 1, "last": 2}


def of_window(window: Windows | None) -> Definition:
    spec = TableSpec.of_windows((("k", pa.string()),), aggregation({"n": "count"}, {}), (), window)
    return Definition.of(spec, TimeDomain.EVENT)


@pytest.mark.parametrize("window", [tumbling("10m"), hopping("10m", "1m"), session("10m")], ids=str)
def test_a_window_is_read_back_and_a_changed_one_is_refused(window: Windows) -> None:
    before = of_window(window)
    again = Definition.from_json(json.loads(json.dumps(before.to_json())))
    assert again.spec().window == window
    assert again.spec().keys == before.spec().keys
    assert compare_definitions(before, again).refusals == []
    (refusal,) = compare_definitions(before, of_window(tumbling("1h"))).refusals
    assert refusal == f"window was {window}, is now tumbling(1h)"
    (refusal,) = compare_definitions(before, of_window(None)).refusals
    assert refusal == f"window was {window}, is now none"


def test_a_definition_that_was_written_before_there_were_windows_has_none() -> None:
    facts = of_window(None).to_json()
    del facts["window"]
    assert Definition.from_json(facts) == of_window(None)


def test_ids_are_never_given_again() -> None:
    first = definition({"a": "count", "b": "max(x)"})
    second = compare_definitions(first, definition({"a": "count"})).definition
    third = compare_definitions(second, definition({"a": "count", "b": "max(x)"})).definition
    assert ids(third) == {"a": 0, "b": 2}


def test_an_unchanged_definition_is_the_same_however_its_text_is_spaced() -> None:
    before = definition({"a": "count", "b": "max(x)"})
    takeover = compare_definitions(before, definition({"a": "count", "b": "max(x)"}))
    assert takeover.definition == before
    assert found(compare_definitions(before, definition({"a": "count()", "b": "max( x )"}))) == {
        "a": "kept",
        "b": "kept",
    }


def test_added_dropped_and_in_another_order() -> None:
    before = definition({"a": "count", "b": "max(x)", "c": "min(x)"})
    takeover = compare_definitions(before, definition({"c": "min(x)", "d": "sum(x)", "a": "count"}))
    assert found(takeover) == {"c": "kept", "d": "added", "a": "kept", "b": "dropped"}
    assert ids(takeover.definition) == {"c": 2, "d": 3, "a": 0}
    assert takeover.refusals == []


def test_a_renamed_aggregate_keeps_its_id_and_the_entry_may_stay() -> None:
    before = definition({"a": "max(x)"})
    asked = definition({"top": "max(x)"}, {"top": "a"})
    takeover = compare_definitions(before, asked)
    assert found(takeover) == {"top": "renamed"}
    assert ids(takeover.definition) == {"top": 0}
    again = compare_definitions(takeover.definition, asked)
    assert found(again) == {"top": "kept"}
    assert again.definition == takeover.definition


def test_an_old_name_may_begin_again_as_another_aggregate() -> None:
    before = definition({"a": "max(x)"})
    asked = definition({"top": "max(x)", "a": "count"}, {"top": "a"})
    takeover = compare_definitions(before, asked)
    assert found(takeover) == {"top": "renamed", "a": "added"}
    assert ids(takeover.definition) == {"top": 0, "a": 1}
    assert found(compare_definitions(takeover.definition, asked)) == {"top": "kept", "a": "kept"}


@pytest.mark.parametrize(
    ("texts", "renamed", "reason"),
    [
        ({"top": "max(x)"}, {"top": "b"}, "the state has no aggregate b (it has a, c)"),
        ({"c": "count"}, {"c": "a"}, "the state has both c and a; remove the entry"),
    ],
)
def test_a_renaming_that_would_lose_state_is_refused(
    texts: dict[str, str], renamed: dict[str, str], reason: str
) -> None:
    before = definition({"a": "max(x)", "c": "count"})
    (refusal,) = compare_definitions(before, definition(texts, renamed)).refusals
    assert reason in refusal


def test_a_renaming_that_makes_no_sense_is_refused() -> None:
    texts = {"a": "count", "b": "count"}
    assert check_renamed(texts, {"a": "old"}) is None
    assert "c is not an aggregate" in str(check_renamed(texts, {"c": "a"}))
    assert "the same name as before" in str(check_renamed(texts, {"a": "a"}))
    assert "several aggregates" in str(check_renamed(texts, {"a": "c", "b": "c"}))


WIDER = {
    "max(x)": {"x": pa.int64()},
    "sum(x)": {"x": pa.int64()},
    "avg(f)": {"f": pa.float64()},
    "min(f)": {"f": pa.float64()},
    "sum(d)": {"d": pa.decimal128(14, 2)},
    "max(d)": {"d": pa.decimal128(14, 4)},
    "min_by(s, x)": {"x": pa.int64()},
    "stddev(f)": {"f": pa.float64()},
    "approx_percentile(d, 0.5)": {"d": pa.decimal128(14, 4)},
    "approx_count_distinct(x)": {"x": pa.int64()},
}


@pytest.mark.parametrize("text", WIDER)
def test_wider_types_are_taken_over(text: str) -> None:
    before = definition({"a": text})
    assert found(compare_definitions(before, definition({"a": text}, **WIDER[text]))) == {
        "a": "widened"
    }
    both = compare_definitions(before, definition({"b": text}, {"b": "a"}, **WIDER[text]))
    assert found(both) == {"b": "renamed, widened"}


OTHER = {
    "max(x)": ({"x": pa.int16()}, "column x was int32, is now int16, which is not wider"),
    "sum(x)": ({"x": pa.float64()}, "column x was int32, is now double, which is not wider"),
    "avg(x)": ({"x": pa.decimal128(12, 0)}, "was int32, is now decimal128(12, 0), which is not"),
    "sum(d)": ({"d": pa.decimal128(14, 4)}, "is now decimal128(14, 4), of another scale: cast it"),
    "first(s)": ({"s": pa.binary()}, "column s was string, is now binary, which is not wider"),
    "approx_count_distinct(d)": ({"d": pa.decimal128(14, 4)}, "of another scale: cast it"),
    "count(distinct x)": ({"x": pa.int64()}, "is now int64, but lists keep their type: cast it"),
    "top_n(s, 3, x)": ({"x": pa.int64()}, "is now int64, but lists keep their type: cast it"),
}


@pytest.mark.parametrize("text", OTHER)
def test_other_types_are_refused_with_the_way_out(text: str) -> None:
    types, reason = OTHER[text]
    takeover = compare_definitions(definition({"a": text}), definition({"a": text}, **types))
    assert found(takeover) == {"a": "refused"}
    assert reason in takeover.refusals[0]
    assert takeover.refusals[0].endswith("or give the aggregate another name")


def test_a_count_keeps_no_value_and_its_column_may_be_of_any_type() -> None:
    before = definition({"a": "count(x)"})
    assert found(compare_definitions(before, definition({"a": "count(x)"}, x=pa.string()))) == {
        "a": "kept"
    }


def test_another_text_under_the_same_name_is_refused() -> None:
    before = definition({"a": "max(x)", "b": "count", "c": "top_n(x, 3)"})
    after = definition({"a": "min(x)", "b": "count(x)", "c": "top_n(x, 4)"})
    takeover = compare_definitions(before, after)
    assert takeover.refusals == [
        "aggregate a was max(x), is now min(x): give the new one another name",
        "aggregate b was count, is now count(x): give the new one another name",
        "aggregate c was top_n(x, 3), is now top_n(x, 4): give the new one another name",
    ]


def test_keys_time_and_order_are_fixed_and_each_difference_is_told() -> None:
    before = definition({"a": "last(s)"}, order=("x",))
    other = definition({"a": "last(s)"}, order=("f",), k=pa.binary())
    other = Definition.from_json(other.to_json() | {"time": "processing"})
    assert compare_definitions(before, other).refusals == [
        "time was event, is now processing",
        "keys was k: string, is now k: binary",
        "order was x: int32, is now f: float",
    ]


def test_order_columns_of_a_list_may_not_widen() -> None:
    before = definition({"a": "collect_list(s, 3)"}, order=("x",))
    wider = definition({"a": "collect_list(s, 3)"}, order=("x",), x=pa.int64())
    assert found(compare_definitions(before, wider)) == {"a": "refused"}


def test_order_columns_may_widen() -> None:
    before = definition({"a": "last(s)"}, order=("x",))
    wider = definition({"a": "last(s)"}, order=("x",), x=pa.int64())
    assert found(compare_definitions(before, wider)) == {"a": "widened"}
    assert (
        compare_definitions(wider, before).refusals[0] == "order column x was int64, is now int32"
    )


@pytest.mark.parametrize(
    "aggregates", [[["a", "count", 0], ["b", "count", 0]], [["a", "count", 7]]]
)
def test_ids_that_cannot_be_are_not_believed(aggregates: list[list[object]]) -> None:
    facts = definition({"a": "count"}).to_json() | {"aggregates": aggregates}
    with pytest.raises(ValueError, match="aggregates: their ids must differ"):
        Definition.from_json(facts)


def deduplicated(keep: Keep, *names: str, **types: pa.DataType) -> Definition:
    known = TYPES | types
    spec = TableSpec((("k", pa.string()),), deduplication(keep, names, known))
    return Definition.of(spec, TimeDomain.EVENT)


def test_a_deduplication_is_read_back_as_one() -> None:
    before = deduplicated(Keep.LAST, "x", "s")
    after = compare_definitions(before, deduplicated(Keep.LAST, "s", "f")).definition
    again = Definition.from_json(json.loads(json.dumps(after.to_json())))
    assert again == after
    assert again.spec().kind == after.spec().kind
    assert [each.id for each in again.spec().kind.stored] == ["time", "a1", "a2"]


def test_columns_of_a_deduplication_change_as_aggregates_do() -> None:
    before = deduplicated(Keep.FIRST, "x", "s", "d")
    takeover = compare_definitions(before, deduplicated(Keep.FIRST, "x", "s", "f", x=pa.int64()))
    assert found(takeover) == {"x": "widened", "s": "kept", "f": "added", "d": "dropped"}


@pytest.mark.parametrize("other", [definition({"x": "first(x)"}), deduplicated(Keep.LAST, "x")])
def test_another_kind_of_operator_is_refused(other: Definition) -> None:
    (refusal,) = compare_definitions(other, deduplicated(Keep.FIRST, "x")).refusals
    assert refusal == f"kind was {other.kind}, is now deduplicate first"


def of_function(*, in_order: bool = True, inputs: int = 1, **types: pa.DataType) -> Definition:
    number = {INPUT_NUMBER: pa.int8()} if inputs > 1 else {}
    kind = FunctionState("f", (), tuple((number | types).items()))
    spec = TableSpec.of_windows(
        (("k", pa.string()),), kind, tuple(number.items()), None, in_order=in_order
    )
    return Definition.of(spec, TimeDomain.EVENT)


def test_columns_of_records_that_wait_may_come_go_and_widen_but_not_change() -> None:
    before = of_function(n=pa.int32(), s=pa.string())
    assert not compare_definitions(before, of_function(n=pa.int64(), m=pa.int8())).refusals
    refusals = compare_definitions(before, of_function(n=pa.string())).refusals
    assert refusals == ["column n was int32, is now string"]
    unordered = of_function(n=pa.int32(), in_order=False)
    assert not compare_definitions(unordered, of_function(n=pa.string(), in_order=False)).refusals


def test_a_function_on_one_input_does_not_become_one_on_two() -> None:
    one, two = of_function(n=pa.int32()), of_function(n=pa.int32(), inputs=2)
    assert compare_definitions(one, two).refusals == ["inputs was 1, is now 2"]
    assert compare_definitions(two, one).refusals == ["inputs was 2, is now 1"]


def of_states(text: str) -> Definition:
    state = StateColumns.from_text("v", text, pa.struct({"x": pa.int64()}), 0)
    spec = TableSpec((("k", pa.string()),), FunctionState("f", (state,), ()))
    return Definition.of(spec, TimeDomain.EVENT)


def of_frame(types: Mapping[str, pa.DataType] = TYPES, **texts: str) -> Definition:
    kind = over_kind({"n": "count"} | texts, ["x"], types, (), Frame(FrameUnit.ROWS, 3))
    return Definition.of(TableSpec((("k", pa.string()),), kind, in_order=True), TimeDomain.EVENT)


def test_a_column_of_waiting_rows_that_is_read_as_another_type_is_another_column() -> None:
    before, after = of_frame(m="max(s)"), of_frame(TYPES | {"s": pa.int64()}, p="max(s)")
    now = compare_definitions(before, after).definition
    assert {each.id for each in now.spec().carried} >= {"4.i_s:int64"}


def of_input(**columns: pa.DataType) -> Definition:
    kind = FunctionState("f", (), tuple(columns.items()))
    return Definition.of(TableSpec((("k", pa.string()),), kind, in_order=True), TimeDomain.EVENT)


@pytest.mark.parametrize(
    ("with_it", "without"),
    [
        pytest.param(of_states("value with ttl"), of_states("value"), id="stamps of a value"),
        pytest.param(of_frame(m="max(x)"), of_frame(), id="a column of a frame"),
        pytest.param(of_frame(m="max(k)"), of_frame(), id="a column of waiting rows"),
        pytest.param(of_input(x=pa.int64()), of_input(), id="a column of a function"),
    ],
)
def test_a_stored_column_that_returns_never_has_an_id_that_it_had(
    with_it: Definition, without: Definition
) -> None:
    def stored(each: Definition) -> set[str]:
        spec = Definition.from_json(json.loads(json.dumps(each.to_json()))).spec()
        return {column.id for column in (*spec.schema.columns, *spec.carried)}

    found = [with_it]
    for asked in (without, with_it, with_it, without, with_it):
        takeover = compare_definitions(found[-1], asked)
        assert takeover.refusals == []
        found.append(takeover.definition)
    first, dropped, second, kept, _, third = map(stored, found)
    assert second == kept
    assert first > dropped
    assert first & second == second & third == first & third == dropped
