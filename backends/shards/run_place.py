"""The place of a shard's runs, and how a table is read from it and written to it.

A place stores bytes under names: files of a checkpoint or of a remote store, or values of the
sidecar's store. It writes a run once and never changes it. A run counts if the record names it.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Protocol

from idlestate.backends.runs.run import Run
from idlestate.backends.runs.segment import Segment
from idlestate.backends.runs.table_runs import Next, Runs
from idlestate.backends.runs.table_schema import TableSchema
from idlestate.backends.shards.shard_record import RunRef, TableRecord


class RunPlace(Protocol):
    """The runs of one shard."""

    def write(self, table: str, segments: Iterator[Segment], following: Next) -> tuple[RunRef, Run]:
        """Write a run; it is durable when this returns, or when its record is written.

        Args:
            table: the name of the table.
            segments: at least one, in order of hash.
            following: the batch's result that the segments contain.

        Raises:
            OSError: the disk is full or unavailable; nothing is left behind.
        """

    def read(self, table: str, ref: RunRef, schema: TableSchema) -> Run:
        """Open a run, or return the one written or read before, with its old schema.

        Raises:
            ValueError: it is lost or damaged.
        """

    def keep(self, table: str, runs: Mapping[RunRef, Run]) -> None:
        """Note the current runs of the table; other runs need not stay open."""


def read_table(place: RunPlace, name: str, record: TableRecord, schema: TableSchema) -> Runs:
    """The table that a record describes."""
    runs = {ref: place.read(name, ref, schema).with_schema(schema) for ref in record.runs}
    place.keep(name, runs)
    return Runs(schema, tuple(runs.values()), record.sweeps, record.live)


def write_table(
    place: RunPlace, name: str, following: Next, before: TableRecord
) -> tuple[TableRecord, Runs]:
    """Write the result of a batch for a table; return the table's next record and runs."""
    stay = len(before.runs) - following.taken
    refs, written = before.runs[:stay], None
    segments = following.segments() if following.writes else iter(())
    first = next(segments, None)
    if first is not None:
        ref, written = place.write(name, chain([first], segments), following)
        refs += (ref,)
    runs = following.with_run(written)
    place.keep(name, dict(zip(refs, runs.runs, strict=True)))
    return TableRecord(refs, runs.sweeps, runs.live), runs
