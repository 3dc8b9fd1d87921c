"""Rows as a run's file has them: records of one layout, and columns of strings.

A merge copies records as a whole, so its cost grows little with the number of columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.byte_source import Ints
from idlestate.backends.runs.fields import join, take
from idlestate.backends.runs.row_layout import (
    Records,
    RowLayout,
    Text,
    text_bytes,
    text_offsets,
)
from idlestate.backends.runs.rows import Rows
from idlestate.backends.runs.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Rows of a layout."""

    layout: RowLayout
    records: Records
    """One per row. Its offsets of strings are those of its file; `gathered` sets them anew."""
    texts: Sequence[pa.Array]
    """The columns `RowLayout.texts`; nulls are noted in the records."""

    @classmethod
    def of(cls, rows: Rows, schema: TableSchema, layout: RowLayout) -> "PackedRows":
        """Rows in the columns of a schema."""
        return cls(layout, *layout.pack(rows, schema))

    @classmethod
    def read(cls, records: Records, text: Text, layout: RowLayout) -> "PackedRows":
        """Rows of a run's file."""
        kinds = [(name, layout.schema.field(name).type) for name in layout.texts]
        return cls(layout, records, [text(name, kind, None) for name, kind in kinds])

    @staticmethod
    def gathered(parts: Sequence["PackedRows"], rows: Ints) -> "PackedRows":
        """The rows at positions in the concatenated parts (at least one)."""
        layout = parts[0].layout
        # As bytes, because numpy copies structures field by field.
        whole = np.dtype(f"V{layout.dtype.itemsize}")
        joined = join([np.ascontiguousarray(part.records).view(whole) for part in parts])
        records = joined.take(rows).view(layout.dtype)
        columns = zip(*(part.texts for part in parts), strict=True)
        texts = [take(join(column), rows) for column in columns]
        for name, column in zip(layout.texts, texts, strict=True):
            records[name] = text_offsets(column)[:-1]
        return PackedRows(layout, records, texts)

    def __len__(self) -> int:
        return len(self.records)

    def pieces(self) -> tuple[list[memoryview], list[memoryview]]:
        """The bytes of the records, and of each column of strings. If there are strings, a record
        is added, at whose offsets the last row's strings end.
        """
        after = np.zeros(1 if self.texts else 0, dtype=self.layout.dtype)
        for name, column in zip(self.layout.texts, self.texts, strict=True):
            after[name] = len(text_bytes(column))
        records = [each.view(np.uint8).data for each in (self.records, after)]
        return records, [memoryview(text_bytes(column)) for column in self.texts]
