"""How much is run: rows, batches, ids and rounds of the full and the quick form."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is run."""

    prelude: int
    rows: int
    batches: int
    small_rows: int
    small_batches: int
    join_rows: int
    ids: int
    forget_ids: int
    forget_cycles: int
    warm_up: int
    small_warm_up: int
    brief_rows: tuple[int, int]
    brief_batches: int
    brief_warm_up: int
    sparse_ids: tuple[int, int, int]
    sparse_rows: int
    sparse_batches: int
    sparse_warm_up: int
    rounds: int


FULL = Scale(
    # Spark's planning is compiled by how often it runs, not by how much there is to do.
    prelude=100,
    rows=500_000,
    batches=28,
    small_rows=100_000,
    small_batches=12,
    join_rows=250_000,
    ids=1_000_000,
    forget_ids=500_000,
    forget_cycles=6,
    warm_up=8,
    small_warm_up=4,
    brief_rows=(25_000, 1_000),
    brief_batches=50,
    brief_warm_up=20,
    sparse_ids=(100_000, 1_000_000, 10_000_000),
    sparse_rows=10_000,
    sparse_batches=110,
    sparse_warm_up=10,
    rounds=2,
)
QUICK = Scale(
    prelude=1,
    rows=20_000,
    batches=5,
    small_rows=1_000,
    small_batches=3,
    join_rows=1_000,
    ids=40_000,
    forget_ids=20_000,
    forget_cycles=2,
    warm_up=1,
    small_warm_up=1,
    brief_rows=(500, 100),
    brief_batches=3,
    brief_warm_up=1,
    sparse_ids=(2_000, 8_000, 20_000),
    sparse_rows=500,
    sparse_batches=4,
    sparse_warm_up=1,
    rounds=1,
)
QUICK_NAMES = (
    "uniform/groupBy",
    "uniform/bare",
    "uniform/retain",
    "small-uniform/ttl",
    "hold-zipf",
    "deduplication",
    "functions-zipf",
    "interval-join",
    "asof-join",
    "forget/retain-event",
    "sparse",
    "executors",
    "metrics",
    "sidecar",
)
"""What the quick form runs: every kind of query and every line of the report once."""
