"""A sink's folder on a Hadoop file system, and the mark of the query that owns it."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from idlestate.errors import RefusedError
from idlestate.pipeline.spark.hadoop import Hadoop

MARK = "_idlestate.json"
"""Names the query that owns the folder; readers skip names with this prefix."""
_UNDONE = "_idlestate.undone"
_TRIAL = "_idlestate.trial"
_FULL = "No space left on device"


class SinkFolder:
    """A folder of a sink; file names are relative to it.

    Errors of the file system are raised as RefusedError with the sink and its folder.
    """

    def __init__(self, spark: SparkSession, folder: str, sink: str = "sink") -> None:
        """Open a folder by path or URL; it need not exist.

        Args:
            spark: the session whose Hadoop settings apply.
            folder: path or URL.
            sink: its name in messages, such as `sink results`.
        """
        self.folder = folder
        self.sink = sink
        self._hadoop = Hadoop(spark)
        self._root = self._hadoop.path(folder)
        self._system = self._hadoop.system(self._root)

    def is_owned_by(self, query_id: str | None) -> bool:
        """Whether the folder has this query's mark; False if it has no mark.

        Raises:
            RefusedError: it has another query's mark.
        """
        text = self.read(MARK)
        if text is None:
            return False
        if json.loads(text)["query_id"] != query_id:
            raise RefusedError(
                f"{self.sink}: folder {self.folder} belongs to another query (a deleted or "
                "different checkpoint); use a new folder, restore the query's old checkpoint, or "
                "start everything from scratch: idlestate run FILE --afresh"
            )
        return True

    def own(self, query_id: str, rollbacks: int = 0) -> None:
        """Mark the folder, without output that its rollbacks undid, as owned by this query."""
        self.write(MARK, json.dumps({"query_id": query_id, "rollbacks": rollbacks}))

    def rollbacks_seen(self) -> int:
        """The number of rollbacks in the folder's mark."""
        seen: int = json.loads(self.read(MARK) or "{}").get("rollbacks", 0)
        return seen

    def note_undone(self, files: Iterable[str]) -> None:
        """Note names of files, before they are removed because a rollback undid their batches."""
        names = {*self.undone(), *files}
        if names:
            self.write(_UNDONE, "\n".join(sorted(names)))

    def undone(self) -> set[str]:
        """The names of all files that rollbacks undid; each occurs only once, ever."""
        return {*(self.read(_UNDONE) or "").splitlines()}

    def names(self) -> Iterator[str]:
        """Names of files and folders in it; empty if it does not exist."""
        if self._system.exists(self._root):
            for status in self._system.listStatus(self._root):
                yield status.getPath().getName()

    def has(self, name: str) -> bool:
        """Whether a file or folder with this name exists."""
        found: bool = self._system.exists(self._path(name))
        return found

    def read(self, name: str) -> str | None:
        """A file as text; None if it does not exist."""
        return self._hadoop.read(self._path(name)) if self.has(name) else None

    def make(self) -> None:
        """Create the folder, unless it exists.

        Raises:
            RefusedError: that is not possible.
        """
        with self._told("created"):
            made = self._system.mkdirs(self._root)
        if not made:
            raise self._refused("created", "the file system does not allow it")

    def check_writable(self) -> None:
        """Write a file and remove it again.

        Raises:
            RefusedError: that is not possible.
        """
        self.write(_TRIAL, "")
        self.remove(_TRIAL)

    def write(self, name: str, text: str) -> None:
        """Write or replace a file; it is complete or absent, even if the process is killed."""
        draft = self._path(f"{name}.draft")
        with self._told("written to"):
            stream = self._system.create(draft, True)  # noqa: FBT003 - overwrites
            try:
                stream.write(text.encode())
            finally:
                stream.close()
            # Some file systems do not rename onto a file that exists.
            self._system.delete(self._path(name), False)  # noqa: FBT003 - a file
            self._system.rename(draft, self._path(name))

    def remove(self, name: str) -> None:
        """Remove a file or folder with its contents, if it exists."""
        with self._told("written to"):
            self._system.delete(self._path(name), True)  # noqa: FBT003 - with all that is in it

    def empty(self) -> None:
        """Remove everything in the folder, the mark last, so that no other query can claim it
        before.

        Raises:
            RefusedError: that is not possible.
        """
        for name in list(self.names()):
            if name != MARK:
                self.remove(name)
        left = [name for name in self.names() if name != MARK]
        if left:
            raise self._refused("emptied", f"{left[0]} cannot be removed")
        self.remove(MARK)

    def remove_own(self, url: str) -> None:
        """Remove a file by its URL, if it is anywhere below this folder."""
        path = self._hadoop.path_of_url(url)
        root, file = (str(self._system.makeQualified(each)) for each in (self._root, path))
        if file.startswith(f"{root}/"):
            with self._told("written to"):
                self._system.delete(path, False)  # noqa: FBT003 - a file

    def move(self, name: str, target: "SinkFolder", new_name: str) -> None:
        """Move a file or folder to another folder of the same file system, if it exists."""
        if not self.has(name):
            return
        target.make()
        if not self._system.rename(self._path(name), target._path(new_name)):  # noqa: SLF001
            raise RefusedError(
                f"{target.sink}: {self._path(name)} cannot be moved to {target.folder}: results, "
                "expired and rejects must be writable folders of one file system"
            )

    def _path(self, name: str) -> Any:
        return self._hadoop.path(self._root, name) if name else self._root

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            said = str(error.java_exception.getMessage())
            raise self._refused(done, said.splitlines()[0]) from error

    def _refused(self, done: str, reason: str) -> RefusedError:
        if _FULL in reason:
            return RefusedError(
                f"{self.sink}: folder {self.folder} cannot be {done}: the disk is full: free some "
                "space and run the same command again; nothing is lost"
            )
        return RefusedError(
            f"{self.sink}: folder {self.folder} cannot be {done}: {reason}; let the user that "
            "runs this write there, or set another path for this sink"
        )
