"""Which columns an operator of the sidecar may have, and what becomes of their edges."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from idlestate import Accumulator
from idlestate.backends.runs.table_runs import LOWEST_HASH
from idlestate.backends.shards.aggregation import aggregation
from idlestate.backends.shards.changelog_rows import change_schema
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.added_columns import ADDED_COLUMNS, CHANGE_COLUMNS, LIFE_COLUMNS, REJECTED
from idlestate.retention.policy import TimeDomain
from idlestate.sidecar.core.one_way_writes import Write
from idlestate.sidecar.core.operator import Operator
from idlestate.sidecar.core.operator_record import OperatorRecord
from idlestate.sidecar.core.shard_executor import SentRows
from idlestate.sidecar.protocol.declaration import Declaration
from idlestate.sidecar.protocol.errors import DoesNotFitError
from idlestate.sidecar.protocol.transfers import stream_of
from tests.sidecar.sidecar_world import RULE, SHARDS, SPEC, World, batch, policy_processing

Types = Mapping[str, pa.DataType]
pytestmark = pytest.mark.parametrize("world", ["heap"], indirect=True)


def declared(world: World, key: Types, aggregates: Mapping[str, str], columns: Types) -> Operator:
    spec = TableSpec(tuple(key.items()), aggregation(aggregates, {**key, **columns}))
    declaration = Declaration.of("other", spec, TimeDomain.PROCESSING, SHARDS)
    return world.host.declare(declaration, policy_processing(RULE))


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(10, 2), pa.list_(pa.int64())])
def test_a_key_that_cannot_be_told_from_another_is_refused(world: World, kind: pa.DataType) -> None:
    """No NaN equals the next, and two zeros have other bytes."""
    with pytest.raises(DoesNotFitError, match="key column k is of type"):
        declared(world, {"k": kind}, {"n": "count"}, {})


@pytest.mark.parametrize("name", ["k", "Change", "deadline"])
def test_a_name_that_would_stand_twice_is_refused(world: World, name: str) -> None:
    with pytest.raises(DoesNotFitError, match=f"the name {name} is used twice"):
        declared(world, {"k": pa.string()}, {name: "count"}, {})


def test_the_names_that_are_taken_are_those_of_change_rows_and_lives(world: World) -> None:
    shown = ShardTable.empty(SPEC).lives(world.operator.record.policy).column_names
    own = [*SPEC.key_names, *(name for name, _ in SPEC.kind.results)]
    assert change_schema(SPEC).names == [*own, *CHANGE_COLUMNS]
    assert shown == [*own, *LIFE_COLUMNS]
    assert {*CHANGE_COLUMNS, *LIFE_COLUMNS, REJECTED} == set(ADDED_COLUMNS)


@pytest.mark.parametrize(
    "kind",
    [pa.uint32(), pa.uint64(), pa.decimal256(10, 2), pa.decimal64(10, 2), pa.decimal32(9, 2)],
)
@pytest.mark.parametrize("function", ["sum", "avg", "max"])
def test_a_type_that_would_be_added_up_wrongly_is_refused(
    world: World, function: str, kind: pa.DataType
) -> None:
    with pytest.raises(DoesNotFitError, match="reads a column of type"):
        declared(world, {"k": pa.string()}, {"a": f"{function}(v)"}, {"v": kind})


@pytest.mark.parametrize("kind", [pa.uint32(), pa.uint64(), pa.decimal256(10, 2)])
def test_one_that_is_stored_already_is_opened_as_it_is(world: World, kind: pa.DataType) -> None:
    """It keeps neither the others nor their sidecar from starting."""
    types = {"change": pa.float64(), "v": kind}
    spec = TableSpec((("change", pa.float64()),), aggregation({"n": "count(v)"}, types))
    declaration = Declaration.of("other", spec, TimeDomain.PROCESSING, SHARDS)
    record = OperatorRecord(declaration, policy_processing(RULE))
    world.store.write({"o/other": record.encode()})
    world.crash()
    world.host.declare(declaration, policy_processing(RULE))
    assert {each.state.uid for each in world.host} == {"counts", "other"}


def test_a_write_whose_average_fits_no_decimal_is_refused_and_stops_no_query(
    world: World,
) -> None:
    kind = pa.decimal128(38, 0)
    operator = declared(world, {"k": pa.string()}, {"a": "avg(v)"}, {"v": kind})
    rows = pa.table({"k": ["a"], "v": pa.array([Decimal(10**38 - 1)], kind)})
    write = Write("w", "", 0, "1", "add", SentRows(stream_of(rows)))
    with pytest.raises(DoesNotFitError, match=r"avg\(v\) does not fit"):
        operator.writes.take(write, world.clock.now_ms())
    operator.batches.begin("query-1", "run-0", "somewhere")
    operator.batches.open(world.attempt(batch(world, 0), 0, "e"))
    assert operator.writes.take(write, world.clock.now_ms())
    operator.batches.release()
    assert operator.sizes().quarantined == 1


def test_a_write_whose_sum_leaves_128_bits_is_refused(world: World) -> None:
    """It would come out as a small number of the other sign."""
    kind = pa.decimal128(38, 0)
    operator = declared(world, {"k": pa.string()}, {"a": "sum(v)"}, {"v": kind})
    rows = pa.table({"k": ["a"] * 3, "v": pa.array([Decimal(9 * 10**37)] * 3, kind)})
    with pytest.raises(DoesNotFitError, match=r"sum\(v\) does not fit"):
        operator.writes.take(Write("w", "", 0, "1", "add", SentRows(stream_of(rows))), 0)
    assert operator.sizes().live_keys == 0


class Doubled(Accumulator):
    """Twice the sum."""

    state = {"total": pa.int64()}  # noqa: RUF012 - as users write it
    result_type = pa.int64()

    def init(self) -> Any:
        return (0,)

    def update(self, state: list[pa.Array], columns: list[pa.Array]) -> Any:
        return [columns[0].fill_null(0)]

    def merge(self, state: list[pa.Array], group: Any, groups: int) -> Any:
        return [np.bincount(group, state[0].to_numpy(), groups).astype(np.int64)]

    def result(self, state: list[pa.Array]) -> Any:
        return 2 * state[0].to_numpy()


def test_an_accumulator_of_the_user_is_kept_over_a_restart(world: World) -> None:
    reference = f"{Doubled.__module__}:Doubled(v)"
    operator = declared(world, {"k": pa.string()}, {"a": reference}, {"v": pa.int64()})
    for seq in range(2):
        rows = pa.table({"k": ["x", "x", "y"], "v": [1, None, 5]})
        operator.writes.take(Write("w", "", seq, "1", "add", SentRows(stream_of(rows))), 0)
        world.crash()
        operator = world.host["other"]
    parts = [operator.lives(shard, 0, LOWEST_HASH)[0] for shard in range(SHARDS)]
    lives = pa.concat_tables(parts).to_pylist()
    assert {life["k"]: life["a"] for life in lives} == {"x": 4, "y": 20}


def test_one_whose_class_the_sidecar_cannot_import_is_refused(world: World) -> None:
    reference = f"{Doubled.__module__}:Doubled(v)"
    types = {"k": pa.string(), "v": pa.int64()}
    spec = TableSpec((("k", pa.string()),), aggregation({"a": reference}, types))
    declaration = Declaration.of("other", spec, TimeDomain.PROCESSING, SHARDS)
    gone = (("a", reference.replace("Doubled", "Gone"), 0),)
    definition = replace(declaration.definition, aggregates=gone)
    with pytest.raises(
        DoesNotFitError, match=r"operator 'other': aggregate a: .*Gone is not found"
    ):
        world.host.declare(replace(declaration, definition=definition), policy_processing(RULE))
