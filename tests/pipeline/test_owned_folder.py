"""Files of a sink's folder on a file system that does not rename onto files that exist."""

from pathlib import Path
from typing import Any

import pytest

from idlestate.pipeline import owned_folder
from idlestate.pipeline.owned_folder import SinkFolder


class _Stream:
    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")
        self.write, self.close = self.file.write, self.file.close


class _Files:
    """What is used of Hadoop, like HDFS, on local files."""

    def __init__(self, _spark: object) -> None: ...

    def path(self, *parts: Any) -> Path:
        return Path(*parts)

    def system(self, _path: Path) -> "_Files":
        return self

    def read(self, path: Path) -> str:
        return path.read_text()

    def exists(self, path: Path) -> bool:
        return path.exists()

    def create(self, path: Path, _overwrites: bool) -> _Stream:
        return _Stream(path)

    def delete(self, path: Path, _recursive: bool) -> bool:
        path.unlink(missing_ok=True)
        return True

    def rename(self, path: Path, target: Path) -> bool:
        if target.exists():
            return False
        path.rename(target)
        return True


def test_the_mark_of_a_sink_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_folder, "Hadoop", _Files)
    sink = SinkFolder(None, str(tmp_path))  # type: ignore[arg-type]
    sink.own("query")
    assert sink.rollbacks_seen() == 0
    sink.own("query", 2)
    assert sink.rollbacks_seen() == 2
    assert sink.is_owned_by("query")
    assert [path.name for path in tmp_path.iterdir()] == ["_idlestate.json"]
