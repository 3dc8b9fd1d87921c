"""The process from which Spark forks Python workers, with the libraries of a batch loaded.

Spark's own daemon loads only pyspark, so each worker of the first batch imports numpy, Arrow and
idlestate itself, all at the same time. Workers forked from this process have them loaded, and like
it, keep freed memory between batches.
"""

from pyspark import worker  # noqa: F401 - loaded for the workers, as are those below
from pyspark.daemon import manager

from idlestate.backends.runs.memory_allocator import keep_memory
from idlestate.pipeline import changelog_unpacker, pack, step_on_spark_state  # noqa: F401

if __name__ == "__main__":
    keep_memory()
    manager()
