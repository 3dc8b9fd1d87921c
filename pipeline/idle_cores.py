"""A warning at a start: cores of the machine that an operator cannot keep busy."""

import logging

from idlestate.backends.checkpoint.operator_layout import OperatorLayout
from idlestate.backends.checkpoint.shard_partitions import even_partitions
from idlestate.config.plurals import counted
from idlestate.pipeline.spark.spark_version import REPARTITION_SINCE, spark_version

_log = logging.getLogger("idlestate")


def warn_of_idle_cores(uid: str, layout: OperatorLayout, cores: int) -> None:
    """Warn if an operator cannot use all cores, and say what would help."""
    partitions, shards = layout.state_partitions, len(layout.shards)
    if cores <= partitions:
        return
    can_repartition = spark_version() >= REPARTITION_SINCE
    larger = [
        count for count in even_partitions(layout.shards) if count > partitions and can_repartition
    ]
    help_ = f"the number of shards ({shards}) is fixed; a new checkpoint may have more (shards=...)"
    if layout.backend != "spark":
        help_ = (
            "its state is in a sidecar, where that number is fixed; a new checkpoint may have more "
            "(spark.sql.shuffle.partitions)"
        )
    elif larger:
        fits = next((count for count in larger if count >= cores), larger[-1])
        help_ = f"idlestate state repartition CHECKPOINT --partitions {fits} spreads it further"
    _log.warning(
        "operator %s keeps its state on %s, so its state keeps %d of %d cores busy at most: %s",
        uid,
        counted(partitions, "partition"),
        partitions,
        cores,
        help_,
    )
