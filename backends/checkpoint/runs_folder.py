"""The folder of an operator's runs: in its checkpoint, or elsewhere.

Elsewhere, each checkpoint has its own folder, whose name is in its layout (`runs_owner`).
"""

from pathlib import Path

from idlestate.backends.checkpoint.operator_layout import OperatorLayout, layout_path, read_layout
from idlestate.backends.files.folder import Folder
from idlestate.config.url_secrets import holds_secret, without_secrets
from idlestate.config.urls import is_url
from idlestate.errors import RefusedError


def runs_place(uid: str, runs: str) -> str:
    """A place for runs as the checkpoint stores it: absolute, and without secrets.

    Raises:
        RefusedError: it contains a secret.
    """
    if holds_secret(runs):
        raise RefusedError(
            f"operator {uid!r}: runs {without_secrets(runs)} holds a secret, which would be "
            "written to the checkpoint; put it into the environment (AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY)"
        )
    return runs.rstrip("/") if is_url(runs) else str(Path(runs).absolute())


def runs_of(checkpoint: Folder, uid: str, layout: OperatorLayout) -> Folder:
    """The folder of an operator's runs, with a folder for each shard.

    Raises:
        StoreError: it is remote and cannot be reached.
    """
    if layout.runs is None:
        return checkpoint.below(f"idlestate/{uid}/runs")
    return Folder(layout.runs).below(layout.runs_folder)


def remove_runs(checkpoint: Folder) -> None:
    """Remove the runs that a checkpoint keeps elsewhere; call it before removing the checkpoint.

    Raises:
        StoreError: the place cannot be reached.
    """
    for uid in checkpoint.names("idlestate"):
        if checkpoint.exists(layout_path(uid)):
            layout = read_layout(checkpoint, uid)
            if layout.runs is not None:
                runs_of(checkpoint, uid, layout).remove_all()
