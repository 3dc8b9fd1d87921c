"""The files of one shard as bytes: on this machine, or remote with a local copy."""

from collections.abc import Iterator
from contextlib import contextmanager

from idlestate.backends.files.file_checked_on_read import CheckedFile, missing
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.local_cache import LocalCache, local_cache
from idlestate.backends.files.local_file import LocalBytes
from idlestate.backends.files.remote_file import FarBytes
from idlestate.backends.runs.block_checksums import BlockWriter, data_bytes
from idlestate.backends.runs.byte_source import Source, Whole
from idlestate.backends.shards.shard_record import RunRef


class RunStore:
    """A folder of files that are written once, under unique names."""

    def __init__(self, folder: Folder, advice: str) -> None:
        """Start without reading or creating anything.

        Args:
            folder: where the files are.
            advice: what to do if one is lost or damaged.
        """
        self._folder, self._advice = folder, advice
        self.place = str(folder)
        """Its name."""
        self._cache: LocalCache | None = None if folder.is_local else local_cache()

    @contextmanager
    def create(self, name: str) -> Iterator[BlockWriter]:
        """Create a file; it is complete or absent afterwards.

        Raises:
            OSError: the disk is full or unavailable.
            StoreError: the store cannot be reached.
        """
        with self._folder.create(name) as file:
            if self._cache is None:
                yield BlockWriter([file])
            else:
                with self._cache.copying(self.place, name) as copy:
                    yield BlockWriter([file, copy])

    def open_written(self, ref: RunRef) -> Source:
        """Open a file that this process has just written, which needs no checks."""
        if self._cache is None:
            data = self._folder.open(ref.name)
        else:
            entry = self._cache.open(self.place, ref.name, ref.bytes)
            entry.close()
            if entry.is_new:  # there was no room for the copy
                return self.open(ref)
            data = entry.mapped
        return Whole(data.slice(0, data_bytes(ref.bytes)))

    def open(self, ref: RunRef) -> Source:
        """Open a file whose content is verified before it is used.

        Raises:
            DamagedStateError: it is missing or damaged.
            StoreError: the store cannot be reached.
        """
        if self._cache is not None:
            return CheckedFile(FarBytes(self._folder, ref, self._cache), ref, self._advice)
        try:
            return CheckedFile(LocalBytes(self._folder.path(ref.name)), ref, self._advice)
        except FileNotFoundError as error:
            raise missing(self.shown(ref), ref, self._advice) from error

    def names(self) -> list[str]:
        """The names of all files."""
        return self._folder.names("")

    def remove(self, name: str) -> None:
        """Remove a file and its local copy; no error if it does not exist."""
        self._folder.remove(name)
        if self._cache is not None:
            self._cache.remove(self.place, name)

    def forget_copies(self, but: set[str]) -> None:
        """Remove the local copies of all files except these."""
        if self._cache is not None:
            self._cache.keep_only(self.place, but)

    def shown(self, ref: RunRef) -> str:
        """The name of a file for messages."""
        return self._folder.shown(ref.name)
