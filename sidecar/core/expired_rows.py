"""Expire rows as the log stores them: results under the ids of their aggregates, as in runs.

So rows staged before a change of the definition are read with the current columns: a missing result
is that of a life without records for the aggregate, and surplus results are ignored.

Layout: `k0` ... the key columns and bounds of windows, `a<id>` ... the results, then the columns of
change rows that idlestate adds, under their names.
"""

import pyarrow as pa

from idlestate.backends.shards.changelog_rows import change_schema
from idlestate.backends.shards.table_spec import TableSpec


def stored_rows(spec: TableSpec, rows: pa.Table) -> pa.Table:
    """Change rows as the log stores them."""
    return rows.rename_columns(_stored_names(spec))


def shown_rows(spec: TableSpec, stored: pa.Table) -> pa.Table:
    """Rows of the log as change rows of the current definition."""
    schema = change_schema(spec)
    names = _stored_names(spec)
    if stored.schema.names != names:
        blank = _blank(spec, stored.num_rows)
        columns = [
            stored.column(name) if name in stored.schema.names else blank[name] for name in names
        ]
        stored = pa.table(columns, names=names)
    # Casts to a wider type, or from an average of decimals with fewer digits after the point.
    return stored.rename_columns(schema.names).cast(schema, safe=False)


def _stored_names(spec: TableSpec) -> list[str]:
    results = [f"a{each.id}" for each in spec.kind.aggregates]
    keys = [f"k{at}" for at in range(len(spec.shown_keys))]
    return [*keys, *results, *change_schema(spec).names[len(keys) + len(results) :]]


def _blank(spec: TableSpec, rows: int) -> dict[str, pa.Array]:
    """The results of lives without records for any aggregate."""
    kind = spec.life_kind
    results = kind.result([column.blanks(rows) for column in kind.life])
    return {f"a{each.id}": found for each, found in zip(spec.kind.aggregates, results, strict=True)}
