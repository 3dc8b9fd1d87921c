"""The place of an operator's state: the checkpoint, with runs elsewhere, or a sidecar."""

import uuid
from typing import Any

from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.runs_folder import runs_place
from idlestate.errors import RefusedError
from idlestate.pipeline.sidecar_link import link_file
from idlestate.sidecar.protocol.connection import Address

BACKENDS = ("spark", "rocksdb", "heap")


def state_place(
    spark: SparkSession,
    uid: str,
    backend: str,
    sidecar: str | Address | None,
    runs: str | None,
) -> dict[str, Any]:
    """The arguments of `retain` about it, as fields of the operator's spec.

    Raises:
        RefusedError: the arguments contradict each other, or `runs` contains a secret.
    """
    if backend not in BACKENDS:
        raise RefusedError(
            f"operator {uid!r}: backend {backend!r} is not valid; use one of {', '.join(BACKENDS)}"
        )
    if backend == "spark":
        if sidecar is not None:
            raise RefusedError(
                f"operator {uid!r}: a sidecar was passed, but backend is spark; set "
                "backend='rocksdb' or 'heap'"
            )
        return {"runs": None if runs is None else runs_place(uid, runs)}
    if runs is not None:
        raise RefusedError(
            f"operator {uid!r}: a sidecar keeps its state in its own folder; remove runs, or "
            "set backend='spark'"
        )
    return {
        "runs": None,
        "backend": backend,
        "sidecar": Address(sidecar) if isinstance(sidecar, str) else sidecar,
        "partitions": int(str(spark.conf.get("spark.sql.shuffle.partitions"))),
        "link_file": link_file(uuid.uuid4().hex),
    }
