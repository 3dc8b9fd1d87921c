"""A folder on any file system that pyarrow supports: local, HDFS, S3, GCS, by path or URL.

Durable means readable after the process was killed: when `write` returns, the file is complete.
A file is replaced by writing a new one and renaming it; in an object store, a rename is an atomic
copy and a deletion.
"""

import contextlib
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from idlestate.config.url_secrets import without_secrets
from idlestate.errors import RefusedError, StoreError

_FOLDERLESS = {"s3", "gcs"}
"""Stores in which folders are parts of names and are not created."""


class Folder:
    """A folder; the paths of its methods are relative to it, with `/` between parts."""

    def __init__(self, url: str) -> None:
        """Open a folder by path or URL; it need not exist yet.

        Raises:
            RefusedError: the kind of store is unknown.
        """
        self.url = url
        if url.startswith("file:") or "://" not in url:
            # As in Hadoop, nothing in the path is escaped.
            local = re.sub(r"^file:(//[^/]*)?", "", url)
            self._files, self._root = fs.LocalFileSystem(), str(Path(local).absolute())
            return
        try:
            self._files, self._root = _far(url)
        except pa.ArrowInvalid as error:
            raise RefusedError(
                f"{without_secrets(url)} is not a place that idlestate can open; use a "
                "path, or a URL that begins with s3://, gs://, hdfs:// or file://"
            ) from error
        except OSError as error:
            raise _unreachable(without_secrets(url), error) from error
        self._root = self._root.rstrip("/")

    def __str__(self) -> str:
        """The folder for messages, without secrets of the URL."""
        return without_secrets(self.url)

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's file system."""
        return isinstance(self._files, fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """The full path of a file."""
        return f"{self._root}/{name}"

    def shown(self, name: str) -> str:
        """The path of a file, for messages."""
        scheme = "" if self.is_local else f"{self._files.type_name}://"
        return f"{scheme}{self.path(name)}"

    def below(self, name: str) -> "Folder":
        """A sub-folder."""
        found = copy(self)
        found.url, found._root = self.shown(name), self.path(name)  # noqa: SLF001 - of this class
        return found

    def names(self, below: str) -> list[str]:
        """Names in a sub-folder, sorted; none if it does not exist."""
        selector = fs.FileSelector(self.path(below), allow_not_found=True)
        with self.told_plainly():
            return sorted(info.base_name for info in self._files.get_file_info(selector))

    def exists(self, name: str = "") -> bool:
        """Whether a file or folder of this name exists; without a name, this folder."""
        with self.told_plainly():
            kind = self._files.get_file_info(self.path(name).rstrip("/")).type
        return bool(kind != fs.FileType.NotFound)

    def read(self, name: str) -> bytes:
        """The contents of a file."""
        with self.told_plainly(), self._files.open_input_file(self.path(name)) as file:
            return bytes(file.read())

    def open(self, name: str) -> pa.Buffer:
        """The contents of a file as a buffer, memory-mapped if the folder is local."""
        if self.is_local:
            with pa.memory_map(self.path(name)) as mapped:
                return mapped.read_buffer()
        with self.told_plainly(), self._files.open_input_file(self.path(name)) as file:
            return file.read_buffer()

    def open_input(self, name: str) -> pa.NativeFile:
        """A file for reading in parts; wrap reads in `told_plainly`."""
        with self.told_plainly():
            return self._files.open_input_file(self.path(name))

    def write(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write a new file, and create its folder if needed. An incomplete file is removed, unless
        the store fails.
        """
        with self.create(name) as file:
            file.write(data)

    @contextmanager
    def create(self, name: str) -> Iterator[pa.NativeFile]:
        """A new file to write in parts; otherwise as `write`."""
        path = self.path(name)
        with self.told_plainly():
            if self._files.type_name not in _FOLDERLESS:
                self._files.create_dir(path.rpartition("/")[0], recursive=True)
            try:
                with self._files.open_output_stream(path) as file:
                    yield file
            except BaseException as error:
                # An unreachable store would only cause another wait; what it has is an orphan.
                if self.is_local or not isinstance(error, OSError):
                    self.remove(name)
                raise

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file atomically."""
        beside = f"{name}.{uuid.uuid4().hex}.tmp"
        self.write(beside, data)
        with self.told_plainly():
            self._files.move(self.path(beside), self.path(name))

    def remove(self, name: str) -> None:
        """Remove a file; no error if it does not exist."""
        with self.told_plainly(), contextlib.suppress(FileNotFoundError):
            self._files.delete_file(self.path(name))

    def remove_all(self) -> None:
        """Remove the folder and its contents; no error if it does not exist."""
        with self.told_plainly(), contextlib.suppress(FileNotFoundError):
            self._files.delete_dir(self._root)

    @contextmanager
    def told_plainly(self) -> Iterator[None]:
        """Raise errors of a remote store as `StoreError`, with what to check.

        Raises:
            FileNotFoundError: the store is reachable, but the file does not exist.
            StoreError: the store returns another error, or does not respond.
        """
        try:
            yield
        except (FileNotFoundError, StoreError):
            raise
        except OSError as error:
            if self.is_local:
                raise
            raise _unreachable(str(self), error) from error


@cache
def _far(url: str) -> tuple[fs.FileSystem, str]:
    """The store of a URL; one per process, so that connections are reused."""
    # Hadoop's s3a is S3.
    files, root = fs.FileSystem.from_uri(re.sub(r"^s3[an]:", "s3:", url))
    return files, root


def _unreachable(place: str, error: OSError) -> StoreError:
    said = without_secrets(str(error).strip().splitlines()[0])
    return StoreError(
        f"{place} cannot be reached: {said}; check that the store is up, its address "
        "(endpoint_override in the URL) and the credentials in the environment (AWS_ACCESS_KEY_ID "
        "and so on); nothing is lost, a batch that failed runs again"
    )
