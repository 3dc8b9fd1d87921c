"""Joins of random rows give what DuckDB's joins give, however the rows are cut and in what order
they come: equal times, ties, keys without a partner, null keys.
"""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.as_of import as_of
from idlestate.backends.shards.join_step import apply_join
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.stream_join import HOW
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policies, Policy
from tests.backends.stream_join_rows import NO_POLICIES, Row, rows_of, spec_of, steps_of
from tests.lengths import by_cases

duckdb = pytest.importorskip("duckdb")

ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["a", "a", "b", None]), st.integers(0, 12)),
    max_size=30,
)
CUTS = st.sets(st.integers(0, 30), max_size=6)
TTL_MS = 4


@pytest.fixture(scope="module")
def base() -> Any:
    return duckdb.connect()


def numbered(drawn: list[tuple[int, str | None, int]]) -> list[Row]:
    return [Row(side, key, 1_000 + t_ms, at) for at, (side, key, t_ms) in enumerate(drawn)]


def by_duckdb(base: Any, rows: list[Row], query: str) -> Counter[tuple[Any, ...]]:
    """The rows of a query on the tables `l` and `r` with columns k, t and v."""
    for side, name in enumerate("lr"):
        own = [row for row in rows if row.side == side]
        kind = pa.int64() if side else pa.string()
        columns = {
            "k": pa.array([row.key for row in own], pa.string()),
            "t": pa.array([row.t_ms for row in own], pa.int64()),
            "v": pa.array([row.value for row in own], kind),
        }
        base.register(name, pa.table(columns))
    return Counter(base.sql(query).fetchall())


def joined(
    how: str,
    between: tuple[int, int] | None,
    rows: list[Row],
    cuts: set[int],
    policies: Policies = NO_POLICIES,
) -> Counter[tuple[Any, ...]]:
    """What a shard emits whose watermark is behind all rows until it is ahead of all."""
    spec = spec_of(how, between)
    table, found = ShardTable.empty(spec), list[dict[str, Any]]()
    bounds = [0, *sorted(at for at in cuts if at < len(rows)), len(rows)]
    parts = [rows[begin:end] for begin, end in pairwise(bounds)]
    for batch_id, part in enumerate([*parts, []]):
        sweep_at_ms = 1 << 60 if batch_id == len(parts) else 999
        outcome = apply_join(
            table, steps_of(spec, part), policies, sweep_at_ms, batch_id, MergePolicy()
        )
        found += rows_of(outcome)
        table = outcome.table
    names = ["k", "l"] if how in ("semi", "anti") else ["k", "l", "r"]
    return Counter(tuple(row[name] for name in names) for row in found)


@by_cases("cases", 20)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("is_interval", [False, True], ids=["regular", "interval"])
def test_joined_rows_equal_those_of_duckdb(
    base: Any, how: str, cases: int, *, is_interval: bool
) -> None:
    @settings(max_examples=cases)
    @given(ROWS, CUTS, st.integers(-6, 6), st.integers(0, 8))
    def checked(
        drawn: list[tuple[int, str | None, int]], cuts: set[int], low_ms: int, width_ms: int
    ) -> None:
        rows = numbered(drawn)
        between = (low_ms, low_ms + width_ms) if is_interval else None
        condition = "l.k = r.k"
        if between is not None:
            condition += f" and r.t between l.t + {between[0]} and l.t + {between[1]}"
        columns = "l.k, l.v" if how in ("semi", "anti") else "coalesce(l.k, r.k), l.v, r.v"
        query = f"select {columns} from l {how} join r on {condition}"
        policies = NO_POLICIES if is_interval else (Policy(ttl_ms=90), Policy(ttl_ms=90))
        assert joined(how, between, rows, cuts, policies) == by_duckdb(base, rows, query)

    checked()


ASOF = f"""
    with versions as (select k, t, max(v) as v from r group by k, t)
    from (select l.k, l.v, case when l.t < versions.t + {TTL_MS} then versions.v end as version
    from l asof left join versions on l.k = versions.k and l.t >= versions.t)
"""


@by_cases("cases", 30)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_versions_equal_those_of_duckdb(base: Any, how: str, cases: int) -> None:
    """A version is kept for a while; of those of one time the largest counts."""
    types = {"l": pa.string(), "r": pa.int64()}
    spec = TableSpec((("k", pa.string()),), as_of(how, ["l"], ["r"], types), in_order=True)

    @settings(max_examples=cases)
    @given(ROWS, CUTS, st.integers(0, 5))
    def checked(drawn: list[tuple[int, str | None, int]], cuts: set[int], delay_ms: int) -> None:
        rows = [row for row in numbered(drawn) if row.key is not None]
        rows.sort(key=lambda row: row.t_ms + row.number * 7 % (delay_ms + 1))
        table, found = ShardTable.empty(spec), list[dict[str, Any]]()
        bounds = [0, *sorted(at for at in cuts if at < len(rows)), len(rows)]
        highest_ms = 0
        parts = [rows[begin:end] for begin, end in pairwise(bounds)]
        for batch_id, part in enumerate([*parts, []]):
            upto_ms = highest_ms if batch_id == len(parts) else highest_ms - delay_ms - 1
            outcome = table.apply(
                versioned(spec, part), Policy(ttl_ms=TTL_MS), upto_ms, batch_id, MergePolicy()
            )
            found += outcome.changes.to_pylist()
            table = outcome.table
            highest_ms = max([highest_ms, *(row.t_ms for row in part)])
        query = ASOF + ("where version is not null" if how == "inner" else "")
        expected = by_duckdb(base, rows, query)
        assert Counter((row["k"], row["l"], row["r"]) for row in found) == expected

    checked()


def versioned(spec: TableSpec, rows: list[Row]) -> Steps:
    return Steps.from_records(
        spec,
        [pa.array([row.key for row in rows], pa.string())],
        np.array([row.t_ms for row in rows], dtype=np.int64),
        {
            "l": pa.array([None if row.side else row.value for row in rows], pa.string()),
            "r": pa.array([row.value if row.side else None for row in rows], pa.int64()),
        },
        reads=np.array([not row.side for row in rows], dtype=bool),
    ).collapsed(spec.kind)
