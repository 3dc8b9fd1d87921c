"""A run: rows in order of hash that were written at once and never change.

File layout, version 2: an Arrow IPC file, to be memory-mapped, of one record batch per segment
(`idlestate.backends.segment`). Schema metadata: `idlestate.run` format version, `idlestate.schema`
fingerprint of keys and aggregates, `idlestate.policy` the policy whose deadlines are indexed, JSON.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.keys import Keys
from idlestate.backends.rows import Rows
from idlestate.backends.segment import Segment
from idlestate.backends.steps import TableSpec
from idlestate.backends.sweeps import Sweeps, are_swept, ending, reached_ms
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.retention.rules import NEVER_MS, is_due

_VERSION = b"2"
_VERSION_KEY, _SCHEMA_KEY, _POLICY_KEY = b"idlestate.run", b"idlestate.schema", b"idlestate.policy"
Ints = npt.NDArray[np.int64]


class RunError(ValueError):
    """A run cannot be read: it is damaged, or of another version or schema."""


def fingerprint(spec: TableSpec) -> str:
    """Sixteen hex digits that change with keys, aggregates, order columns and their types."""
    parts = {
        "keys": [[name, str(kind)] for name, kind in spec.keys],
        "order": [[name, str(kind)] for name, kind in spec.order],
        "aggregates": [[a.name, a.text, str(a.result_type)] for a in spec.aggregates],
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Run:
    """Segments in order of hash, at least one."""

    segments: tuple[Segment, ...]
    policy: Policy
    """Its deadlines are indexed under this policy."""
    batch_id: int
    """The batch that wrote it: every row was open when that batch had swept."""

    @cached_property
    def starts(self) -> Ints:
        """Where each segment's rows begin among all, and the number of rows."""
        return np.cumsum([0, *(len(segment) for segment in self.segments)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def _firsts(self) -> Ints:
        return np.array([segment.rows.hashes[0] for segment in self.segments])

    @cached_property
    def _lasts(self) -> Ints:
        return np.array([segment.rows.hashes[-1] for segment in self.segments])

    def look_up(self, hashes: Ints, keys: Keys) -> Ints:
        """The row of each key, tombstones too; -1 where there is none.

        Args:
            hashes, keys: the keys looked for, in order of hash.
        """
        found = np.full(len(hashes), -1)
        begins = np.searchsorted(hashes, self._firsts, side="left")
        stops = np.searchsorted(hashes, self._lasts, side="right")
        for segment, start, begin, stop in zip(
            self.segments, self.starts.tolist(), begins.tolist(), stops.tolist(), strict=False
        ):
            if begin < stop:
                wanted = [column.slice(begin, stop - begin) for column in keys]
                at = segment.look_up(hashes[begin:stop], wanted)
                found[begin:stop] = np.where(at < 0, -1, at + start)
        return found

    def take(self, rows: Ints, *, keys: bool) -> Rows:
        """The rows at these positions, which ascend, with or without keys; at least one."""
        bounds = np.searchsorted(rows, self.starts).tolist()
        parts = [
            (segment.rows if keys else segment.rows.without_keys).take(rows[begin:stop] - start)
            for segment, start, begin, stop in zip(
                self.segments, self.starts.tolist(), bounds[:-1], bounds[1:], strict=False
            )
            if begin < stop
        ]
        return parts[0] if len(parts) == 1 else Rows.gathered(parts)

    def due(self, policy: Policy, upto_ms: int, sweeps: Sweeps) -> Ints:
        """Rows whose lives end at or before `upto_ms` and that no earlier sweep closed.

        Args:
            policy: the policy in force.
            upto_ms: how far this sweep goes.
            sweeps: the sweeps since the run was written.
        """
        after_ms = reached_ms(sweeps, policy, NEVER_MS)
        is_indexed = ending(policy) == ending(self.policy)
        found = [np.zeros(0, dtype=np.int64)]
        for segment, start in zip(self.segments, self.starts.tolist(), strict=False):
            if is_indexed and segment.due:
                rows = np.sort(segment.due.between(after_ms, upto_ms))
                if not len(rows):
                    continue
            else:
                rows = np.flatnonzero(~segment.rows.are_tombstones)
            lives = segment.rows.lives.take(rows)
            is_over = is_due(lives.ends(policy).deadline_ms, upto_ms)
            rows, lives = rows[is_over], lives.take(is_over)
            found.append(rows[~are_swept(sweeps, lives)] + start)
        return np.concatenate(found)

    def next_end_ms(self, policy: Policy, sweeps: Sweeps) -> int:
        """No open life of the run ends before this; `FOREVER_MS` when none does.

        Rows of keys that newer runs have count too, and the index is coarse: it may be too early.
        """
        after_ms = reached_ms(sweeps, policy, NEVER_MS)
        is_indexed = ending(policy) == ending(self.policy)
        return min(
            _next_end_ms(segment, policy, sweeps, after_ms if is_indexed else None)
            for segment in self.segments
        )

    @classmethod
    def decode(cls, source: pa.NativeFile, spec: TableSpec, batch_id: int) -> "Run":
        """Read a run; columns stay mapped to the file.

        Raises:
            RunError: damaged, or another format version or schema.
        """
        try:
            file = pa.ipc.open_file(source)
            metadata = file.schema.metadata or {}
            if metadata.get(_VERSION_KEY) != _VERSION:
                raise RunError(
                    f"run format {metadata.get(_VERSION_KEY)!r} is not the one this version reads "
                    f"({_VERSION!r}); use the version of idlestate that wrote it"
                )
            if metadata.get(_SCHEMA_KEY) != fingerprint(spec).encode():
                raise RunError("its keys or aggregates are not the ones this query declares")
            segments = tuple(
                Segment.decode(file.get_batch(at), spec) for at in range(file.num_record_batches)
            )
            policy = Policy.from_json(json.loads(metadata[_POLICY_KEY]))
        except (pa.ArrowInvalid, OSError) as error:
            raise RunError(f"this is no whole run: {error}") from error
        return cls(segments, policy, batch_id)


def _next_end_ms(segment: Segment, policy: Policy, sweeps: Sweeps, after_ms: int | None) -> int:
    """The first deadline of a segment after `after_ms`, found by index; None: by looking at all."""
    if after_ms is None or segment.due is None:
        lives = segment.rows.lives.take(~segment.rows.are_tombstones)
        open_ms = lives.ends(policy).deadline_ms[~are_swept(sweeps, lives)]
        return int(open_ms.min(initial=FOREVER_MS))
    rows, next_ms = segment.due.following(after_ms)
    if len(rows):
        deadlines_ms = segment.rows.lives.take(rows).ends(policy).deadline_ms
        next_ms = int(deadlines_ms[deadlines_ms > after_ms].min(initial=next_ms))
    return next_ms


def encode_run(
    segments: Iterable[Segment], spec: TableSpec, policy: Policy, sink: pa.NativeFile
) -> int:
    """Write the file of a run, segment by segment, and say how many rows it has.

    Args:
        segments: in order of hash, at least one.
        spec: what the table keeps.
        policy: the policy under which the segments are indexed.
        sink: the file, open for writing.
    """
    metadata = {
        _VERSION_KEY: _VERSION,
        _SCHEMA_KEY: fingerprint(spec).encode(),
        _POLICY_KEY: json.dumps(policy.to_json()).encode(),
    }
    batches = ((len(segment), segment.encode()) for segment in segments)
    rows, first = next(batches)
    with pa.ipc.new_file(sink, first.schema.with_metadata(metadata)) as writer:
        writer.write_batch(first)
        for more, batch in batches:
            writer.write_batch(batch)
            rows += more
    return rows
