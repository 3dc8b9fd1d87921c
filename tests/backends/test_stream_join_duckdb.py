"""`join` on real data in disorder gives what DuckDB's interval join gives in one piece."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.join_step import apply_join
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.stream_join import stream_join
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy

duckdb = pytest.importorskip("duckdb")

MINUTE_MS = 60_000
BATCHES = 12
ROWS = """
    select row_number() over () as id, {key} as k, epoch_ms(event_time) as t, {is_left} as is_left
    from '{file}' {where}
"""
JOIN = """
    with l as (from rows where is_left), r as (from rows where not is_left)
    select l.id as l, r.id as r
    from l {how} join r on l.k = r.k and r.t between l.t + {low_ms} and l.t + {high_ms}
    order by all
"""


@pytest.mark.parametrize(
    ("file", "key", "is_left", "where", "delay_ms", "between"),
    [
        pytest.param(
            *("online_retail.parquet", "stock_code", "country <> 'United Kingdom'", ""),
            *(60 * MINUTE_MS, (-30 * MINUTE_MS, 60 * MINUTE_MS)),
            id="what is sold abroad and at home within an hour",
        ),
        pytest.param(
            *("irc_activity.parquet", "channel || user_id", "action = 'message'"),
            *("using sample 300000 rows (reservoir, 7)", 5 * MINUTE_MS, (0, MINUTE_MS)),
            id="what those who wrote did in the next minute",
        ),
    ],
)
def test_joined_rows_equal_those_of_duckdb(
    data_dir: Path,
    file: str,
    key: str,
    is_left: str,
    where: str,
    delay_ms: int,
    between: tuple[int, int],
) -> None:
    base = duckdb.connect()
    text = ROWS.format(key=key, is_left=is_left, file=data_dir / file, where=where)
    base.execute(f"create table rows as {text}")
    rows = base.sql("select * from rows order by id").to_arrow_table().combine_chunks()
    low_ms, high_ms = between
    expected = base.sql(JOIN.format(how="full", low_ms=low_ms, high_ms=high_ms)).to_arrow_table()
    found = joined(rows, delay_ms, between)
    order = [("l", "ascending"), ("r", "ascending")]
    found, expected = found.sort_by(order), expected.cast(found.schema).sort_by(order)
    assert found.num_rows > 10_000
    assert all(found.column(name).null_count not in (0, len(found)) for name in ("l", "r"))
    assert found.equals(expected)


def joined(rows: pa.Table, delay_ms: int, between: tuple[int, int]) -> pa.Table:
    """The rows in batches, each up to the delay later than its place, as a shard joins them."""
    types = {"l": pa.int64(), "r": pa.int64()}
    spec = TableSpec((("k", pa.string()),), stream_join("full", between, ["l"], ["r"], types))
    times_ms = rows.column("t").to_numpy()
    late_ms = np.random.default_rng(3).integers(0, delay_ms + 1, len(rows))
    arrived = np.argsort(times_ms + late_ms, kind="stable")
    table, parts, watermark_ms = ShardTable.empty(spec), [], -1
    for batch_id, at in enumerate([*np.array_split(arrived, BATCHES), arrived[:0]]):
        taken, t_ms = rows.take(pa.array(at)), times_ms[at]
        assert (t_ms > watermark_ms).all()
        ids, is_left = taken.column("id").combine_chunks(), taken.column("is_left").to_numpy()
        blank = pa.nulls(len(at), pa.int64())
        steps = Steps.from_records(
            spec,
            [taken.column("k").combine_chunks()],
            t_ms,
            {
                "l": pa.compute.if_else(pa.array(is_left), ids, blank),
                "r": pa.compute.if_else(pa.array(is_left), blank, ids),
            },
            reads=~is_left,
        )
        sweep_at_ms = watermark_ms if len(at) else 1 << 60
        policies = Policy(), Policy()
        outcome = apply_join(table, steps, policies, sweep_at_ms, batch_id, MergePolicy())
        parts.append(outcome.changes.read_all().select(["l", "r"]))
        table = outcome.table
        watermark_ms = max(watermark_ms, int(t_ms.max(initial=0)) - delay_ms - 1)
    assert not table.current.live
    return pa.concat_tables(parts)
