"""Unpacks cells of change rows into the rows of the changelog."""

import json
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql.types import StructType

from idlestate.backends.shards.changelog_rows import change_schema
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.spark.python_worker import settle
from idlestate.pipeline.spark.spark_types import spark_schema
from idlestate.retention.added_columns import INPUT, REJECT, REJECTED


def changelog_arrow_schema(spec: OperatorSpec) -> pa.Schema:
    """Arrow schema of the changelog; with rejects it ends with `rejected`, JSON text."""
    schema = change_schema(spec.table)
    if not spec.rejects:
        return schema
    added = [("reason", pa.string()), ("batch_id", pa.int64()), (REJECTED, pa.string())]
    if spec.terms:
        added.insert(2, (INPUT, pa.string()))
    for name, kind in added:
        if name not in schema.names:
            schema = schema.append(pa.field(name, kind))
    return schema


def changelog_schema(spec: OperatorSpec) -> StructType:
    """Spark schema of the changelog."""
    return spark_schema(changelog_arrow_schema(spec))


def unpacked_cells(
    cells: Iterable[bytes | pa.Buffer], rejected: Iterable[str], spec: OperatorSpec
) -> Iterator[pa.RecordBatch]:
    """The change rows of cells and the reject rows of texts, as record batches of the changelog."""
    schema = changelog_arrow_schema(spec)
    for cell in cells:
        for rows in pa.ipc.open_stream(cell):
            yield _with_rejected(rows, schema)
    for text in rejected:
        yield _reject_rows(json.loads(text), schema)


def unpacker(
    spec: OperatorSpec,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow` that yields the change rows of cells."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            cells = (cell.as_buffer() for cell in batch.column("cell").drop_null())
            yield from unpacked_cells(cells, batch.column("rejected").drop_null().to_pylist(), spec)

    return run


def _with_rejected(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    added = [
        pa.nulls(rows.num_rows, schema.field(at).type)
        for at in range(rows.num_columns, len(schema))
    ]
    return pa.RecordBatch.from_arrays([*rows.columns, *added], schema=schema) if added else rows


def _reject_rows(found: list[tuple[int, str, str, str]], schema: pa.Schema) -> pa.RecordBatch:
    columns = {name: pa.nulls(len(found), schema.field(name).type) for name in schema.names}
    if "change" in columns:
        columns["change"] = pa.array([REJECT] * len(found))
    batch_ids, reasons, inputs, rows = zip(*found, strict=True)
    columns["batch_id"] = pa.array(batch_ids, pa.int64())
    columns["reason"] = pa.array(reasons, pa.string())
    if inputs[0]:
        columns[INPUT] = pa.array(inputs, pa.string())
    columns[REJECTED] = pa.array(rows, pa.string())
    return pa.RecordBatch.from_pydict(columns, schema=schema)
