"""What sinks use of Hadoop, on local files and without a JVM."""

import shutil
from pathlib import Path
from typing import Any


class _Stream:
    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")
        self.write, self.close = self.file.write, self.file.close


class _Status:
    def __init__(self, path: Path) -> None:
        self.getPath = lambda: self
        self.getName = lambda: path.name


class HadoopFiles:
    """What is used of Hadoop, like HDFS, on local files."""

    def __init__(self, _spark: object) -> None: ...

    def path(self, *parts: Any) -> Path:
        return Path(*parts)

    def system(self, _path: Path) -> "HadoopFiles":
        return self

    def read(self, path: Path) -> str:
        return path.read_text()

    def mkdirs(self, path: Path) -> bool:
        path.mkdir(parents=True, exist_ok=True)
        return True

    def exists(self, path: Path) -> bool:
        return path.exists()

    def create(self, path: Path, _overwrites: bool) -> _Stream:
        return _Stream(path)

    def listStatus(self, path: Path) -> list["_Status"]:  # noqa: N802 - Hadoop's name
        return [_Status(each) for each in path.iterdir()]

    def delete(self, path: Path, _recursive: bool) -> bool:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        return not path.exists()

    def rename(self, path: Path, target: Path) -> bool:
        if target.exists():
            return False
        path.rename(target)
        return True
