"""Lists, sets and counts of a real log of sales equal those of DuckDB."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from idlestate import Policy
from idlestate.retention.policy import FOREVER_MS
from idlestate.testing import RetainHarness

MOST = 50_000
AGGREGATES = {
    "different": f"count(distinct stock_code, {MOST})",
    "about": "approx_count_distinct(stock_code, 0.02)",
    "spread": "stddev(unit_price)",
    "middle": "approx_percentile(unit_price, 0.9, 1000)",
    "largest": "top_n(quantity, 5)",
    "dearest": "top_n(stock_code, 3, unit_price)",
    "first_codes": "collect_list(stock_code, 20)",
}
QUERY = """
    SELECT country,
        count(DISTINCT stock_code) AS different,
        count(DISTINCT stock_code) AS about,
        stddev_samp(unit_price) AS spread,
        quantile_disc(unit_price, 0.9) AS middle,
        list(quantity ORDER BY quantity DESC)[:5] AS largest,
        list(stock_code ORDER BY unit_price DESC, stock_code DESC)[:3] AS dearest,
        list(stock_code ORDER BY event_time, stock_code)[:20] AS first_codes
    FROM sales GROUP BY country
"""


def test_sales_by_country_equal_duckdb(data_dir: Path) -> None:
    columns = ["event_time", "stock_code", "quantity", "unit_price", "country"]
    sales = pq.read_table(data_dir / "online_retail.parquet", columns=columns)
    sales = sales.set_column(0, "event_time", sales["event_time"].cast(pa.timestamp("us", "UTC")))
    expected = {row["country"]: row for row in duckdb.sql(QUERY).to_arrow_table().to_pylist()}
    operator = RetainHarness(
        {field.name: field.type for field in sales.schema},
        key="country",
        event_time="event_time",
        aggregates=AGGREGATES,
        policy=Policy(ttl_ms=FOREVER_MS),
    )
    for first in range(0, len(sales), MOST):
        operator.batch(sales.slice(first, MOST))
    found = {row["country"]: row for row in operator.lives()}
    assert found.keys() == expected.keys()
    for country, row in expected.items():
        one = found[country]
        for name in ("different", "largest", "dearest", "first_codes"):
            assert one[name] == row[name], (country, name)
        assert abs(one["about"] - row["about"]) <= 0.08 * row["about"]
        assert abs(one["middle"] - row["middle"]) <= row["middle"] / 1000
        assert (one["spread"] is None) == (row["spread"] is None)
        assert abs((one["spread"] or 0) - (row["spread"] or 0)) <= 1e-9 * (row["spread"] or 0)
