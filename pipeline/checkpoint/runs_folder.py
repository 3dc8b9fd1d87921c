"""Where the runs of an operator are: in its checkpoint, or in a folder elsewhere.

Elsewhere each checkpoint has a folder of its own, under a name that its layout keeps. In it
`idlestate.json` says whose it is: a copy of a checkpoint must not use it together with the
original, since each would remove what the other needs.
"""

import json
import uuid
from dataclasses import replace
from pathlib import Path

from idlestate.backends.files.folder import Folder
from idlestate.config.url_secrets import holds_secret, without_secrets
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.operator_layout import OperatorLayout, layout_path, read_layout

_OWNER = "idlestate.json"


def runs_place(uid: str, runs: str) -> str:
    """A place for runs as the checkpoint remembers it: in full, and without secrets.

    Raises:
        RefusedError: a secret is in it.
    """
    if holds_secret(runs):
        raise RefusedError(
            f"operator {uid!r}: runs {without_secrets(runs)} holds a secret, which would be "
            "written to the checkpoint; put it into the environment (AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY)"
        )
    is_url = "://" in runs or runs.startswith("file:")
    return runs.rstrip("/") if is_url else str(Path(runs).absolute())


def runs_of(checkpoint: Folder, uid: str, layout: OperatorLayout) -> Folder:
    """Where an operator's runs are, in a folder for each shard.

    Raises:
        StoreError: that is far away and cannot be reached.
    """
    if layout.runs is None:
        return checkpoint.below(f"idlestate/{uid}/runs")
    return Folder(layout.runs).below(layout.runs_folder)


def claim_runs(checkpoint: Folder, uid: str, layout: OperatorLayout) -> OperatorLayout:
    """Make a folder elsewhere that no other checkpoint has, and note there whose it is.

    Raises:
        StoreError: the place cannot be reached.
    """
    layout = replace(layout, runs_folder=f"{uid}-{uuid.uuid4().hex}")
    _note_owner(checkpoint, uid, runs_of(checkpoint, uid, layout))
    return layout


def check_runs(checkpoint: Folder, uid: str, layout: OperatorLayout) -> None:
    """Refuse to go on where runs elsewhere are gone, or are another checkpoint's too.

    Raises:
        RefusedError: with the place.
        StoreError: the place cannot be reached.
    """
    if layout.runs is None:
        return
    runs = runs_of(checkpoint, uid, layout)
    if not runs.exists(_OWNER):
        raise RefusedError(
            f"operator {uid!r} of checkpoint {checkpoint} keeps its runs in {runs}, and there is "
            f"no {_OWNER}: the folder is gone, or {layout.runs} now is another place; bring it "
            "back, or start with a new checkpoint folder (and new sink folders)"
        )
    owner = json.loads(runs.read(_OWNER))["checkpoint"]
    if owner == checkpoint.shown("").rstrip("/"):
        return
    if Folder(owner).exists(layout_path(uid)):
        raise RefusedError(
            f"the runs in {runs} belong to checkpoint {owner}, of which {checkpoint} is a copy: "
            "each would remove what the other needs; remove one of them, and to keep both copy "
            f"the runs too and write their place into the copy's {layout_path(uid)}"
        )
    _note_owner(checkpoint, uid, runs)


def remove_runs(checkpoint: Folder) -> None:
    """Remove the runs that a checkpoint keeps elsewhere; to be called before it is removed.

    Raises:
        StoreError: where they are cannot be reached.
    """
    for uid in checkpoint.names("idlestate"):
        if checkpoint.exists(layout_path(uid)):
            layout = read_layout(checkpoint, uid)
            if layout.runs is not None:
                runs_of(checkpoint, uid, layout).remove_all()


def _note_owner(checkpoint: Folder, uid: str, runs: Folder) -> None:
    owner = {"checkpoint": checkpoint.shown("").rstrip("/"), "operator": uid}
    runs.replace(_OWNER, json.dumps(owner, indent=1).encode())
