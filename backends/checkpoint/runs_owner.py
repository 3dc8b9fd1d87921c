"""The checkpoint that owns a folder of runs elsewhere.

`idlestate.json` in this folder names the checkpoint: a copy of the checkpoint must not use the same
folder, because each would remove files that the other needs.
"""

import json
import uuid
from dataclasses import replace

from idlestate.backends.checkpoint.operator_layout import OperatorLayout, layout_path
from idlestate.backends.checkpoint.runs_folder import runs_of
from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError

_OWNER = "idlestate.json"


def claim_runs(checkpoint: Folder, uid: str, layout: OperatorLayout) -> OperatorLayout:
    """Create a unique folder elsewhere, and note its checkpoint there.

    Raises:
        StoreError: the place cannot be reached.
    """
    layout = replace(layout, runs_folder=f"{uid}-{uuid.uuid4().hex}")
    _note_owner(checkpoint, uid, runs_of(checkpoint, uid, layout))
    return layout


def check_runs(checkpoint: Folder, uid: str, layout: OperatorLayout) -> None:
    """Refuse to continue if runs elsewhere are missing, or belong to another checkpoint too.

    Raises:
        RefusedError: the runs cannot be used; the text names the place.
        StoreError: the place cannot be reached.
    """
    if layout.runs is None:
        return
    runs = runs_of(checkpoint, uid, layout)
    if not runs.exists(_OWNER):
        raise RefusedError(
            f"operator {uid!r} of checkpoint {checkpoint} keeps its runs in {runs}, and there is "
            f"no {_OWNER}: the folder is gone, or {layout.runs} now is another place; restore "
            "it, or start with a new checkpoint folder (and new sink folders)"
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


def _note_owner(checkpoint: Folder, uid: str, runs: Folder) -> None:
    owner = {"checkpoint": checkpoint.shown("").rstrip("/"), "operator": uid}
    runs.replace(_OWNER, json.dumps(owner, indent=1).encode())
