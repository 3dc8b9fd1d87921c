"""Files of a sink's folder on a file system that does not rename onto files that exist."""

import shutil
from pathlib import Path

import pytest

from idlestate.errors import RefusedError
from idlestate.pipeline.sinks import owned_folder
from idlestate.pipeline.sinks.owned_folder import SinkFolder
from tests.hadoop_files import HadoopFiles


def test_the_mark_of_a_sink_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_folder, "Hadoop", HadoopFiles)
    sink = SinkFolder(None, str(tmp_path))  # type: ignore[arg-type]
    sink.own("query")
    assert sink.rollbacks_seen() == 0
    sink.own("query", 2)
    assert sink.rollbacks_seen() == 2
    assert sink.is_owned_by("query")
    assert [path.name for path in tmp_path.iterdir()] == ["_idlestate.json"]


def test_a_sink_that_cannot_be_emptied_keeps_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, the folder would be taken for one of others."""
    monkeypatch.setattr(owned_folder, "Hadoop", HadoopFiles)
    sink = SinkFolder(None, str(tmp_path), "sink results")  # type: ignore[arg-type]
    sink.own("query")
    (tmp_path / "batch_id=0").mkdir()
    with monkeypatch.context() as stuck:
        stuck.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(RefusedError, match=r"sink results: .* emptied: batch_id=0 cannot be"):
            sink.empty()
    assert sink.is_owned_by("query")
    sink.empty()
    assert not [*tmp_path.iterdir()]
