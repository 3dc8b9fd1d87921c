"""The large real data sets: which columns are key, amount and label, and their windows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.oracle.idle_oracle import Key

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
TIMESTAMP = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class DataSet:
    """A data set and how it is run."""

    name: str
    file: str
    keys: tuple[str, ...]
    amount: Callable[[pa.Table], pa.ChunkedArray]
    label: Callable[[pa.Table], pa.ChunkedArray]
    min_ms: int
    max_ms: int
    rows_per_batch: int
    delay_ms: int = 10 * MINUTE_MS

    def read(self, folder: Path) -> pa.Table:
        """Key columns, `event_time`, `amount` and `label`, oldest first."""
        table = pq.read_table(folder / self.file)
        columns = {name: table.column(name) for name in self.keys}
        columns["event_time"] = table.column("event_time").cast(TIMESTAMP)
        columns["amount"] = self.amount(table)
        columns["label"] = self.label(table)
        return pa.table(columns)

    def batches(self, table: pa.Table) -> Iterator[pa.Table]:
        """Its rows as the stream gets them."""
        for first in range(0, len(table), self.rows_per_batch):
            yield table.slice(first, self.rows_per_batch)

    def plain(self, table: pa.Table) -> Iterator[tuple[Key, int, int, Any]]:
        """Rows as the oracle takes them."""
        keys = zip(*(table.column(name).to_pylist() for name in self.keys), strict=True)
        times_ms = pc.divide(table.column("event_time").cast(pa.int64()), 1000).to_pylist()
        amounts, labels = (table.column(name).to_pylist() for name in ("amount", "label"))
        return zip(keys, times_ms, amounts, labels, strict=True)


DATA_SETS = (
    DataSet(
        name="globo clicks by session",
        file="globo_clicks.parquet",
        keys=("session_id",),
        amount=lambda table: table.column("article_id"),
        label=lambda table: table.column("article_id"),
        min_ms=30 * MINUTE_MS,
        max_ms=45 * MINUTE_MS,
        rows_per_batch=250_000,
    ),
    DataSet(
        name="irc activity by channel and user",
        file="irc_activity.parquet",
        keys=("channel", "user_id"),
        amount=lambda table: pc.equal(table.column("action"), "message").cast(pa.int32()),
        label=lambda table: table.column("action"),
        min_ms=6 * HOUR_MS,
        max_ms=9 * HOUR_MS,
        rows_per_batch=500_000,
    ),
)
