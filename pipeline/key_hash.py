"""The key hash as Spark computes it; `backends/runs/key_hashes.py` computes the same in Python."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from idlestate.config.sql.quoting import quoted


def key_hash(names: Sequence[str], *, is_chain: bool = False) -> Column:
    """The 64-bit hash of key columns, computed as a chain that `hash_after` extends by one
    column.
    """
    columns = [F.col(quoted(name)) for name in names]
    if len(columns) == 1 or is_chain:
        return F.xxhash64(*columns)
    absent = F.lit(0).cast("long")
    for at, column in enumerate(columns):
        absent += F.when(column.isNull(), F.lit(1 << at)).otherwise(F.lit(0)).cast("long")
    return F.xxhash64(*columns, absent)
