"""A Python worker process of Spark's, which runs task after task."""

import gc
from functools import cache


@cache
def settle() -> None:
    """Take what is loaded by now out of garbage collection, once per process.

    Spark's worker collects in full after every task, which walks every object of every imported
    library each time: some 50 ms, more than a small batch takes.
    """
    gc.freeze()
