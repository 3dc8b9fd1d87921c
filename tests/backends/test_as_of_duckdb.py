"""`join_asof` on real data in disorder gives what DuckDB's ASOF JOIN gives in order."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from idlestate.backends.runs.compaction import MergePolicy
from idlestate.backends.shards.as_of import as_of
from idlestate.backends.shards.shard_table import ShardTable
from idlestate.backends.shards.steps_by_key import Steps
from idlestate.backends.shards.table_spec import TableSpec
from idlestate.retention.policy import Policy

duckdb = pytest.importorskip("duckdb")

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
BATCHES = 12
ROWS = """
    select row_number() over () as id, {key} as k, epoch_ms(event_time) as t, {value} as v,
        {is_probe} as is_probe
    from '{file}' {where}
"""
ASOF = """
    with versions as (select k, t, max(v) as v from rows where not is_probe group by k, t)
    select id, case when probes.t < versions.t + {ttl_ms} then versions.v end as v
    from (from rows where is_probe) as probes
    asof left join versions on probes.k = versions.k and probes.t >= versions.t
    order by id
"""


@pytest.mark.parametrize(
    ("file", "key", "value", "is_probe", "where", "delay_ms", "ttl_ms"),
    [
        pytest.param(
            *("online_retail.parquet", "stock_code", "unit_price"),
            *("country <> 'United Kingdom'", "", DAY_MS, 7 * DAY_MS),
            id="prices at home of what is sold abroad",
        ),
        pytest.param(
            *("irc_activity.parquet", "channel || user_id", "action"),
            *("action = 'message'", "using sample 300000 rows (reservoir, 7)"),
            *(30 * MINUTE_MS, 3 * DAY_MS),
            id="the last step of those who write",
        ),
    ],
)
def test_joined_rows_equal_those_of_duckdb(
    data_dir: Path,
    file: str,
    key: str,
    value: str,
    is_probe: str,
    where: str,
    delay_ms: int,
    ttl_ms: int,
) -> None:
    base = duckdb.connect()
    text = ROWS.format(key=key, value=value, is_probe=is_probe, file=data_dir / file, where=where)
    base.execute(f"create table rows as {text}")
    rows = base.sql("select * from rows order by id").to_arrow_table().combine_chunks()
    expected = base.sql(ASOF.format(ttl_ms=ttl_ms)).to_arrow_table()
    found = joined(rows, delay_ms, Policy(ttl_ms=ttl_ms)).sort_by("id").select(["id", "v"])
    assert found.num_rows > 10_000
    assert found.column("v").null_count not in (0, found.num_rows)
    assert found.to_pydict() == expected.cast(found.schema).to_pydict()


def joined(rows: pa.Table, delay_ms: int, policy: Policy) -> pa.Table:
    """The rows in batches, each up to the delay later than its place, as a shard joins them."""
    types = {"id": rows.schema.field("id").type, "v": rows.schema.field("v").type}
    spec = TableSpec((("k", pa.string()),), as_of("left", ["id"], ["v"], types), in_order=True)
    times_ms = rows.column("t").to_numpy()
    late_ms = np.random.default_rng(3).integers(0, delay_ms + 1, len(rows))
    arrived = np.argsort(times_ms + late_ms, kind="stable")
    table, parts, watermark_ms, highest_ms = ShardTable.empty(spec), [], -1, -1
    for batch_id, at in enumerate(np.array_split(arrived, BATCHES)):
        taken, t_ms = rows.take(pa.array(at)), times_ms[at]
        assert (t_ms > watermark_ms).all()
        is_probe = taken.column("is_probe").to_numpy()
        columns = {name: taken.column(name).combine_chunks() for name in ("id", "v")}
        blank = {name: pa.nulls(len(at), kind) for name, kind in types.items()}
        given = {
            "id": pa.compute.if_else(pa.array(is_probe), columns["id"], blank["id"]),
            "v": pa.compute.if_else(pa.array(is_probe), blank["v"], columns["v"]),
        }
        keys = [taken.column("k").combine_chunks()]
        steps = Steps.from_records(spec, keys, t_ms, given, reads=is_probe).collapsed(spec.kind)
        outcome = table.apply(steps, policy, watermark_ms, batch_id, MergePolicy())
        table = outcome.table
        parts.append(outcome.changes)
        highest_ms = max(highest_ms, int(t_ms.max()))
        watermark_ms = highest_ms - delay_ms - 1
    outcome = table.apply(Steps.empty(spec), policy, highest_ms, BATCHES, MergePolicy())
    return pa.concat_tables([*parts, outcome.changes])
