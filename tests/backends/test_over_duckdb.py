"""`over` on rows in disorder gives what DuckDB's OVER gives in order, on random and real rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.bounded_over import over_kind
from idlestate.backends.shards.frames import WHOLE_LIFE, Frame, FrameUnit
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy

duckdb = pytest.importorskip("duckdb")

HOUR_MS = 3_600_000
TTL_MS = 48 * HOUR_MS
DELAY_MS = HOUR_MS
BATCHES = 9
RANDOM = """
    select 'k' || floor(30 * random() * random()) as k, floor(90 * random())::bigint * 3 * {hour}
        as t, floor(5 * random())::bigint as v
    from range(20000)
"""
RETAIL = """
    select stock_code as k, epoch_ms(event_time) as t, round(100 * unit_price)::bigint as v
    from '{file}' where country <> 'United Kingdom'
"""
LIVES = """
    create table rows as
    select id, k, t, v, sum(is_new) over (partition by k order by t, id) as life
    from (
        select *, coalesce(t - lag(t) over (partition by k order by t, id) >= {ttl}, true)::int
            as is_new
        from (select row_number() over () as id, * from ({rows}))
    )
"""
TEXTS = {
    "n": "count",
    "s": "sum(v)",
    "low": "min(v)",
    "high": "max(v)",
    "d": "count(distinct v)",
}
IN_SQL = TEXTS | {"n": "count(*)"}
FRAMES = [
    (WHOLE_LIFE, "order by t"),
    (Frame(FrameUnit.ROWS), "order by t, v, id rows unbounded preceding"),
    (Frame(FrameUnit.ROWS, 10), "order by t, v, id rows between 9 preceding and current row"),
    (
        Frame(FrameUnit.RANGE, 24 * HOUR_MS),
        f"order by t range between {24 * HOUR_MS} preceding and current row",
    ),
]


@pytest.mark.parametrize("source", ["random", "retail"])
@pytest.mark.parametrize(("frame", "in_sql"), FRAMES, ids=[str(frame) for frame, _ in FRAMES])
def test_rows_equal_those_of_duckdb(
    request: pytest.FixtureRequest, source: str, frame: Frame, in_sql: str
) -> None:
    base = duckdb.connect()
    base.execute("select setseed(0.3)")
    if source == "random":
        text = RANDOM.format(hour=HOUR_MS)
    else:
        data_dir: Path = request.getfixturevalue("data_dir")
        text = RETAIL.format(file=data_dir / "online_retail.parquet")
    base.execute(LIVES.format(rows=text, ttl=TTL_MS))
    columns = ", ".join(
        f"({call} over (partition by k, life {in_sql}))::bigint as {name}"
        for name, call in IN_SQL.items()
    )
    expected = base.sql(f"select id, {columns} from rows order by id").to_arrow_table()
    rows = base.sql("select * from rows order by id").to_arrow_table().combine_chunks()
    found = emitted(rows, frame).sort_by("id").select(expected.column_names)
    assert found.num_rows > 10_000
    assert found.to_pydict() == expected.to_pydict()


def emitted(rows: pa.Table, frame: Frame) -> pa.Table:
    """The rows in batches, each up to the delay later than its place, as a shard emits them."""
    types = {name: rows.schema.field(name).type for name in ("v", "id")}
    kind = over_kind(TEXTS, [*types], types, (), frame)
    spec = TableSpec((("k", pa.string()),), kind, in_order=True)
    times_ms = rows.column("t").to_numpy()
    late_ms = np.random.default_rng(3).integers(0, DELAY_MS + 1, len(rows))
    arrived = np.argsort(times_ms + late_ms, kind="stable")
    table, parts, watermark_ms, highest_ms = ShardTable.empty(spec), [], -1, -1
    for batch_id, at in enumerate([*np.array_split(arrived, BATCHES), arrived[:0]]):
        taken, t_ms = rows.take(pa.array(at)), times_ms[at]
        given = {name: taken.column(name).combine_chunks() for name in types}
        keys = [taken.column("k").combine_chunks()]
        steps = Steps.from_records(spec, keys, t_ms, given) if len(at) else Steps.empty(spec)
        upto_ms = watermark_ms if len(at) else highest_ms
        policy = Policy(ttl_ms=TTL_MS)
        outcome = table.apply(steps, policy, upto_ms, batch_id, MergePolicy())
        table = outcome.table
        parts.append(outcome.changes)
        highest_ms = max(highest_ms, int(t_ms.max(initial=-1)))
        watermark_ms = highest_ms - DELAY_MS - 1
    return pa.concat_tables(parts)
