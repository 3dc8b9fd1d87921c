"""The bytes of a file in an object store or on HDFS, with its cached part."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, pairwise

import pyarrow as pa

from idlestate.backends.files.file_checked_on_read import Span, damaged, missing
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.local_cache import CacheEntry, LocalCache
from idlestate.backends.files.local_file import read_spans
from idlestate.backends.runs.block_checksums import BLOCK_BYTES, wrong_length
from idlestate.backends.shards.shard_record import RunRef

GAP_BYTES = 1 << 17
"""Spans closer than this are fetched as one: a request takes longer than these bytes."""
_MOST_BYTES = 1 << 22
"""The most bytes per request, so that large spans are fetched in parallel."""
_REQUESTS = 16
"""Parallel requests; memory contains no more than their replies."""
_END_BYTES = 1 << 18
"""Bytes of the first request: checksums and index, or a whole small file."""


class FarBytes:
    """A remote file, memory-mapped from the local cache."""

    def __init__(self, store: Folder, ref: RunRef, cache: LocalCache) -> None:
        """Open its cache entry; for a new entry, the end of the file is fetched.

        Args:
            store: its folder.
            ref: its entry in the state.
            cache: the local cache.

        Raises:
            DamagedStateError: it is missing, or of another size.
            StoreError: the store cannot be reached.
        """
        self.path = store.shown(ref.name)
        self._store, self._ref, self._cache = store, ref, cache
        self._file: pa.NativeFile | None = None
        self._entry: CacheEntry = cache.open(str(store), ref.name, ref.bytes)
        self.mapped = self._entry.mapped
        if self._entry.is_new:
            end = max(0, ref.bytes - _END_BYTES) // BLOCK_BYTES * BLOCK_BYTES
            for _ in self.fetch([(end, ref.bytes)]):
                pass

    def read(self, spans: Sequence[Span]) -> Iterator[tuple[int, memoryview]]:
        """The cached spans, holes included."""
        return read_spans(self._entry.handle, spans)

    def fetch(self, spans: Sequence[Span]) -> Iterator[tuple[int, memoryview]]:
        """The spans from the store, with the bytes between close ones."""
        file = self._open()
        asked = _requests(spans)
        with ThreadPoolExecutor(_REQUESTS) as pool:
            while some := list(islice(asked, _REQUESTS)):
                for (begin, _), data in zip(
                    some, pool.map(partial(self._read, file), some), strict=True
                ):
                    try:
                        self._entry.write(begin, data)
                    except OSError as error:
                        raise self._cache.unusable(error) from error
                    yield begin, memoryview(data)

    def close(self) -> None:
        """Close it: nothing more is fetched."""
        self._entry.close()
        self._file = None

    def _open(self) -> pa.NativeFile:
        if self._file is None:
            try:
                self._file = self._store.open_input(self._ref.name)
            except FileNotFoundError as error:
                raise missing(self.path, self._ref) from error
            with self._store.told_plainly():
                size = self._file.size()
            if length := wrong_length(size, self._ref.bytes):
                raise damaged(self.path, length)
        return self._file

    def _read(self, file: pa.NativeFile, span: Span) -> bytes:
        with self._store.told_plainly():
            return bytes(file.read_at(span[1] - span[0], span[0]))


def _requests(spans: Sequence[Span]) -> Iterator[Span]:
    """The spans, ascending: close ones merged, large ones in parts."""
    spans = [span for span in spans if span[0] < span[1]]
    if not spans:
        return
    apart = [at for at, (one, two) in enumerate(pairwise(spans), 1) if two[0] - one[1] > GAP_BYTES]
    for first, stop in pairwise([0, *apart, len(spans)]):
        begin, end = spans[first][0], spans[stop - 1][1]
        for at in range(begin, end, _MOST_BYTES):
            yield at, min(at + _MOST_BYTES, end)
