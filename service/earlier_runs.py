"""What earlier runs of a pipeline left: its checkpoint, its runs elsewhere, its sink folders."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.checkpoint_lock import LOCK
from idlestate.pipeline.checkpoint.runs_folder import remove_runs
from idlestate.pipeline.private_sidecar import stop_private_sidecar
from idlestate.pipeline.sidecar_attachment import drop_operator
from idlestate.sidecar.protocol.connection import Address


class EarlierRuns:
    """What `--afresh` removes.

    Args:
        checkpoint: the query's checkpoint.
        uid: the pipeline.
        sinks: the folders of its sinks; None for one that it does not have.
        sidecar: the address of its sidecar; None if it starts its own, or needs none.
    """

    def __init__(
        self, checkpoint: Path, uid: str, sinks: Iterable[str | None], sidecar: Address | None
    ) -> None:
        self._checkpoint = checkpoint
        self._uid = uid
        self._sidecar = sidecar
        self._marks = {
            checkpoint: checkpoint / "idlestate" / uid,
            **{Path(sink): Path(sink) / "_idlestate.json" for sink in sinks if sink is not None},
        }

    def check(self) -> None:
        """Refuse folders that others have written.

        Raises:
            RefusedError: a folder was not written by this pipeline.
        """
        for folder, mark in self._marks.items():
            held = {path.name for path in folder.iterdir()} - {LOCK} if folder.is_dir() else set()
            if folder.is_file() or (held and not mark.exists()):
                raise RefusedError(
                    f"{folder} was not written by this pipeline ({mark.name} is not in it), so "
                    "--afresh does not remove it; remove it yourself or choose another folder"
                )

    def remove(self) -> None:
        """Remove everything.

        Raises:
            RefusedError: the sidecar does not answer; nothing was removed.
            StoreError: the store of the runs cannot be reached.
        """
        if self._sidecar is not None:
            drop_operator(self._sidecar, self._uid)
        stop_private_sidecar(self._checkpoint)
        remove_runs(Folder(str(self._checkpoint)))
        for folder in self._marks:
            _empty(folder)


def _empty(folder: Path) -> None:
    """Remove the contents of a folder, apart from the lock, which this process holds."""
    if folder.exists():
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != LOCK:
                entry.unlink()
