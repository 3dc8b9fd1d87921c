"""A folder on any file system pyarrow knows: local, HDFS, S3, GCS, named by path or URL.

Durable here means readable after the process was killed: a file is whole once `write` returned.
Files that are replaced are written beside their place first and then moved over it.
"""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow import fs


class Folder:
    """A folder; paths given to its methods are relative to it, with `/` between parts."""

    def __init__(self, url: str) -> None:
        """Open a folder by path or URL; it need not exist yet."""
        if url.startswith("file:") or "://" not in url:
            # As Hadoop reads it: nothing in the path is escaped.
            local = re.sub(r"^file:(//[^/]*)?", "", url)
            self._files, self._root = fs.LocalFileSystem(), str(Path(local).absolute())
        else:
            self._files, self._root = fs.FileSystem.from_uri(url)
        self.url = url

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's file system."""
        return isinstance(self._files, fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """The full path of a file in it."""
        return f"{self._root}/{name}"

    def names(self, below: str) -> list[str]:
        """Names in a sub-folder, sorted; none when it is not there."""
        selector = fs.FileSelector(self.path(below), allow_not_found=True)
        return sorted(info.base_name for info in self._files.get_file_info(selector))

    def exists(self, name: str) -> bool:
        """Whether a file or folder of that name is there."""
        kind = self._files.get_file_info(self.path(name)).type
        return bool(kind != fs.FileType.NotFound)

    def read(self, name: str) -> bytes:
        """A whole file."""
        with self._files.open_input_file(self.path(name)) as file:
            return bytes(file.read())

    def open(self, name: str) -> pa.Buffer:
        """A whole file as a buffer, memory-mapped where the folder is local."""
        if self.is_local:
            with pa.memory_map(self.path(name)) as mapped:
                return mapped.read_buffer()
        with self._files.open_input_file(self.path(name)) as file:
            return file.read_buffer()

    def write(self, name: str, data: pa.Buffer | bytes) -> None:
        """A new file; its folder is made if need be. A file that fails half-way is removed."""
        with self.create(name) as file:
            file.write(data)

    @contextmanager
    def create(self, name: str) -> Iterator[pa.NativeFile]:
        """A new file to be written bit by bit, with what holds for `write`."""
        path = self.path(name)
        self._files.create_dir(path.rpartition("/")[0], recursive=True)
        try:
            with self._files.open_output_stream(path) as file:
                yield file
        except BaseException:
            self.remove(name)
            raise

    def replace(self, name: str, data: bytes) -> None:
        """A file that takes the place of an older one at once and whole."""
        beside = f"{name}.{uuid.uuid4().hex}.tmp"
        self.write(beside, data)
        self._files.move(self.path(beside), self.path(name))

    def remove(self, name: str) -> None:
        """Remove a file; no error when it is gone already."""
        try:
            self._files.delete_file(self.path(name))
        except FileNotFoundError:
            return
