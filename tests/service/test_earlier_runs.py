"""What `--afresh` removes, and what is left if it cannot."""

import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

from idlestate.backends.checkpoint.checkpoint_lock import LOCK
from idlestate.errors import StoreError
from idlestate.pipeline.sinks import owned_folder
from idlestate.pipeline.sinks.folder_sinks import FolderSinks
from idlestate.service.earlier_runs import EarlierRuns
from tests.hadoop_files import HadoopFiles


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EarlierRuns:
    """Of a pipeline whose checkpoint and sink are links to folders on another disk."""
    monkeypatch.setattr(owned_folder, "Hadoop", HadoopFiles)
    disk = tmp_path / "disk"
    (disk / "cp" / "idlestate" / "clicks").mkdir(parents=True)
    (disk / "cp" / "commits").mkdir()
    for file in ("metadata", "commits/0", LOCK):
        (disk / "cp" / file).touch()
    (disk / "results" / "batch_id=0").mkdir(parents=True)
    (disk / "results" / "_idlestate.json").write_text('{"query_id": "x"}')
    for name in ("cp", "results"):
        (tmp_path / name).symlink_to(disk / name)
    sinks = FolderSinks(str(tmp_path / "results"))
    return EarlierRuns(tmp_path / "cp", "clicks", sinks, None)


def test_what_links_lead_to_is_removed(tmp_path: Path, ran: EarlierRuns) -> None:
    ran.check()
    spark: Any = None
    ran.remove(spark)
    assert [path.name for path in (tmp_path / "cp").iterdir()] == [LOCK]
    assert not [*(tmp_path / "results").iterdir()]
    assert (tmp_path / "cp").is_symlink()
    ran.check()


def test_a_checkpoint_that_cannot_be_removed_is_told_and_no_longer_continued(
    tmp_path: Path, ran: EarlierRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the id of its query, its sinks are refused, unless it is removed once more."""

    def refuse(path: Path) -> NoReturn:
        raise PermissionError(13, "Permission denied", str(path))

    spark: Any = None
    with monkeypatch.context() as stuck:
        stuck.setattr(shutil, "rmtree", refuse)
        with pytest.raises(StoreError, match=r"cp/commits: Permission denied; let .* --afresh"):
            ran.remove(spark)
    assert not (tmp_path / "cp" / "metadata").exists()
    assert (tmp_path / "results" / "_idlestate.json").exists()
    ran.check()
    ran.remove(spark)
    ran.check()
