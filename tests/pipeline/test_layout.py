"""Which operators a checkpoint holds, and what is said where there is none."""

from pathlib import Path

import pytest

from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.operator_layout import operator_of


def checkpoint_of(folder: Path, *uids: str) -> Folder:
    (folder / "metadata").write_text("{}")
    for uid in uids:
        (folder / "idlestate" / uid).mkdir(parents=True)
    return Folder(str(folder))


def test_the_only_operator_need_not_be_named(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(tmp_path, "a")
    assert operator_of(checkpoint, None) == "a"
    assert operator_of(checkpoint, "b") == "b"


def test_one_of_several_is_named(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(tmp_path, "a", "b")
    assert operator_of(checkpoint, "b") == "b"
    with pytest.raises(RefusedError, match=r"holds 2 operators \(a, b\); pass the uid of one"):
        operator_of(checkpoint, None)


@pytest.mark.parametrize("uid", [None, "a"])
def test_where_there_is_none_it_is_said_what_the_folder_is(tmp_path: Path, uid: str | None) -> None:
    with pytest.raises(RefusedError, match="/gone does not exist"):
        operator_of(Folder(str(tmp_path / "gone")), uid)
    with pytest.raises(RefusedError, match="is not a checkpoint"):
        operator_of(Folder(str(tmp_path)), uid)
    with pytest.raises(RefusedError, match="holds no operator of idlestate"):
        operator_of(checkpoint_of(tmp_path), uid)
