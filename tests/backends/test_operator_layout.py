"""Which operators a checkpoint holds, and what is said where there is none."""

from pathlib import Path

import pytest

from idlestate.backends.checkpoint.operator_layout import operator_of, read_layout
from idlestate.backends.files.folder import Folder
from idlestate.errors import RefusedError


def checkpoint_of(folder: Path, *uids: str) -> Folder:
    (folder / "metadata").write_text("{}")
    for uid in uids:
        place = folder / "idlestate" / uid
        place.mkdir(parents=True)
        (place / "layout.json").touch()
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


def test_what_is_not_of_an_operator_is_not_counted_as_one(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(tmp_path, "a")
    (tmp_path / "idlestate" / ".DS_Store").touch()
    (tmp_path / "idlestate" / "stray").mkdir()
    assert operator_of(checkpoint, None) == "a"
    with pytest.raises(RefusedError, match=r"holds no operator 'stray'; it holds a$"):
        read_layout(checkpoint, "stray")


@pytest.mark.parametrize("uid", [None, "a"])
def test_where_there_is_none_it_is_said_what_the_folder_is(tmp_path: Path, uid: str | None) -> None:
    with pytest.raises(RefusedError, match="/gone does not exist"):
        operator_of(Folder(str(tmp_path / "gone")), uid)
    with pytest.raises(RefusedError, match="is not a checkpoint"):
        operator_of(Folder(str(tmp_path)), uid)
    with pytest.raises(RefusedError, match="holds no operator of idlestate"):
        operator_of(checkpoint_of(tmp_path), uid)
