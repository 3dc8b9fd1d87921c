"""The remains of earlier runs of a pipeline: its checkpoint, its runs elsewhere, its sink folders.

`--afresh` removes them. If that fails halfway, no later start confuses the rest: the query's id is
removed from its checkpoint first, and without it the sinks belong to another query. The mark of
each folder is removed last, so that `--afresh` can be repeated.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

from idlestate.backends.checkpoint.checkpoint_lock import LOCK
from idlestate.backends.checkpoint.runs_folder import remove_runs
from idlestate.backends.files.folder import Folder
from idlestate.config.urls import is_url
from idlestate.errors import RefusedError, StoreError
from idlestate.pipeline.sidecar_attachment import drop_operator
from idlestate.pipeline.sinks.folder_sinks import FolderSinks
from idlestate.pipeline.sinks.owned_folder import MARK
from idlestate.service.system_errors import os_problem
from idlestate.sidecar.client.private_sidecar import stop_private_sidecar
from idlestate.sidecar.protocol.connection import Address


class EarlierRuns:
    """What `--afresh` removes.

    Args:
        checkpoint: the query's checkpoint.
        uid: the pipeline.
        sinks: its sinks.
        sidecar: the address of its sidecar; None if it starts its own, or needs none.
    """

    def __init__(
        self, checkpoint: Path, uid: str, sinks: FolderSinks, sidecar: Address | None
    ) -> None:
        self._checkpoint = checkpoint
        self._uid = uid
        self._sinks = sinks
        self._sidecar = sidecar

    def check(self) -> None:
        """Refuse local folders that others have written; this needs no Spark.

        Raises:
            RefusedError: a folder was not written by this pipeline.
        """
        _refuse_others(
            str(self._checkpoint),
            _names(self._checkpoint),
            self._uid,
            is_ours=(self._checkpoint / "idlestate" / self._uid).exists(),
        )
        for place in (self._sinks.results, self._sinks.expired, self._sinks.rejects):
            if place is not None and not is_url(place):
                names = _names(Path(place))
                _refuse_others(place, names, MARK, is_ours=MARK in names)

    def remove(self, spark: SparkSession) -> None:
        """Remove everything; the folders themselves stay, as they may be symbolic links.

        Raises:
            RefusedError: a sink was not written by this pipeline, or cannot be written. Nothing
                was removed.
            UnavailableError: the sidecar does not answer, or is busy. Nothing was removed.
            StoreError: the store of the runs cannot be reached, or a file cannot be removed.
        """
        sinks = self._sinks.folders(spark).values()
        for sink in sinks:
            names = list(sink.names())
            _refuse_others(sink.folder, names, MARK, is_ours=MARK in names)
        self._sinks.check_writable(spark)
        if self._sidecar is not None:
            drop_operator(self._sidecar, self._uid)
        stop_private_sidecar(self._checkpoint)
        remove_runs(Folder(str(self._checkpoint)))
        _empty(self._checkpoint)
        for sink in sinks:
            sink.empty()


def _names(folder: Path) -> list[str]:
    if folder.is_dir():
        return [entry.name for entry in folder.iterdir()]
    return [folder.name] if folder.exists() else []


def _refuse_others(folder: str, names: Iterable[str], mark: str, *, is_ours: bool) -> None:
    if {*names} - {LOCK} and not is_ours:
        raise RefusedError(
            f"{folder} was not written by this pipeline ({mark} is not in it), so --afresh does "
            "not remove it; remove it yourself or choose another folder"
        )


def _empty(checkpoint: Path) -> None:
    """Remove everything in a checkpoint except its lock, which this process holds."""
    order = {"metadata": 0, "idlestate": 2}
    try:
        for entry in sorted(checkpoint.iterdir(), key=lambda entry: order.get(entry.name, 1)):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != LOCK:
                entry.unlink()
    except OSError as error:
        raise StoreError(
            f"checkpoint {checkpoint} cannot be removed: {os_problem(error)}; let the user that "
            "runs this remove it, and run this again with --afresh"
        ) from error
