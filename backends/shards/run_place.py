"""Where runs are kept, and the one way by which a table goes there and comes back.

A place keeps bytes under names: files of a checkpoint or of a store far away, or values of the
sidecar's store. It writes a run once and never changes it. What counts is the record that names it.
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
        """Write a run; it is whole when this returns, or the record that names it is written.

        Args:
            table: which of the shard's tables.
            segments: at least one, in order of hash.
            following: what they are made of.

        Raises:
            OSError: the disk is full or gone; nothing is left behind.
        """

    def read(self, table: str, ref: RunRef, schema: TableSchema) -> Run:
        """Open a run, or give the one that was written or read before, with its schema of then.

        Raises:
            ValueError: it is lost or damaged, in the words of the place.
        """

    def keep(self, table: str, runs: Mapping[RunRef, Run]) -> None:
        """These are the runs of the table now: others need not stay open."""


def read_table(place: RunPlace, name: str, record: TableRecord, schema: TableSchema) -> Runs:
    """A table as its record has it."""
    runs = {ref: place.read(name, ref, schema).with_schema(schema) for ref in record.runs}
    place.keep(name, runs)
    return Runs(schema, tuple(runs.values()), record.sweeps, record.live)


def write_table(
    place: RunPlace, name: str, following: Next, before: TableRecord
) -> tuple[TableRecord, Runs]:
    """Write what a batch makes of a table, and give its next record and runs."""
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
