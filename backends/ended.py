"""Keys that ended and are still remembered, so that a comeback is known for one.

Only a key's hash and the end of its last life are kept, 16 bytes a key, sorted by hash. File
layout, version 1: an Arrow IPC file of one record batch, `hash` int64 ascending and `ended` int64
milliseconds, with `idlestate.ended` = format version in the schema's metadata.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.run import RunError
from idlestate.retention.rules import NEVER_MS, saturating_add

_VERSION = b"1"
_VERSION_KEY = b"idlestate.ended"
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ended:
    """Hashes of ended keys, ascending and distinct, and when each ended (ms)."""

    hashes: Ints
    ended_at_ms: Ints

    @classmethod
    def empty(cls) -> "Ended":
        """Nothing remembered."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none)

    def __len__(self) -> int:
        return len(self.hashes)

    def look_up(self, hashes: Ints) -> Ints:
        """When these keys ended, `NEVER_MS` for keys not remembered."""
        ended = np.full(len(hashes), NEVER_MS)
        if len(self):
            at = np.minimum(np.searchsorted(self.hashes, hashes), len(self) - 1)
            ended = np.where(self.hashes[at] == hashes, self.ended_at_ms[at], ended)
        return ended

    def _rows(self, hashes: Ints) -> Ints:
        """Where those of the hashes that are remembered stand."""
        if not len(self):
            return hashes[:0]
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self) - 1)
        found: Ints = at[self.hashes[at] == hashes]
        return found

    def after(
        self, revived: Ints, hashes: Ints, ended_at_ms: Ints, remember_ms: int, horizon_ms: int
    ) -> "Ended":
        """What is remembered after a batch.

        Args:
            revived: hashes of keys that live again.
            hashes, ended_at_ms: keys that ended in this batch.
            remember_ms: how long an end is remembered.
            horizon_ms: no life can begin before this time any more.
        """
        gone = saturating_add(self.ended_at_ms, remember_ms) < horizon_ms
        for changed in (revived, hashes):
            gone[self._rows(changed)] = True
        if not len(hashes) and not gone.any():
            return self
        kept = ~gone
        new = saturating_add(ended_at_ms, remember_ms) >= horizon_ms
        every = np.concatenate([self.hashes[kept], hashes[new]])
        ends = np.concatenate([self.ended_at_ms[kept], ended_at_ms[new]])
        order = np.lexsort((ends, every))
        every, ends = every[order], ends[order]
        last = np.ones(len(every), dtype=bool)
        last[:-1] = every[1:] != every[:-1]
        return Ended(every[last], ends[last])

    def encode(self) -> pa.Buffer:
        """The bytes of its file."""
        batch = pa.RecordBatch.from_pydict(
            {"hash": pa.array(self.hashes), "ended": pa.array(self.ended_at_ms)}
        ).replace_schema_metadata({_VERSION_KEY: _VERSION})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue()

    @classmethod
    def decode(cls, source: pa.NativeFile) -> "Ended":
        """Read it back, mapped to the file.

        Raises:
            RunError: damaged, or another format version.
        """
        try:
            batch = pa.ipc.open_file(source).get_batch(0)
        except (pa.ArrowInvalid, OSError) as error:
            raise RunError(f"this is no whole file of ended keys: {error}") from error
        if (batch.schema.metadata or {}).get(_VERSION_KEY) != _VERSION:
            raise RunError("ended keys are in a format that this version does not read")
        return cls(batch.column("hash").to_numpy(), batch.column("ended").to_numpy())
