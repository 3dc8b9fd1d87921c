"""The process that Spark forks its Python workers from, with the libraries of a batch loaded.

Spark's own daemon loads only pyspark, so each worker of a first batch imports numpy, Arrow and
idlestate by itself, all at the same time. Forked from here, they start with them.
"""

from pyspark import worker  # noqa: F401 - loaded for the workers, as are those below
from pyspark.daemon import manager

from idlestate.pipeline import changelog_unpacker, pack, stateful_step  # noqa: F401

if __name__ == "__main__":
    manager()
