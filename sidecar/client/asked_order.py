"""The result of a look-up in the order of the requested keys."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from idlestate.backends.runs.key_hashes import hash_keys
from idlestate.backends.runs.keys import find_distinct
from idlestate.sidecar.protocol.input_rows import fit_rows


def as_asked(uid: str, asked: pa.Table, key_names: Sequence[str], found: pa.Table) -> pa.Table:
    """One row per requested key, in order; the other columns are null if the key was not found.

    Args:
        uid: the operator.
        asked: the keys, which may occur several times; a table without columns means no keys.
        key_names: the operator's key columns.
        found: the lives of the keys that have one.
    """
    if not asked.num_columns:
        return found
    kinds = {name: found.schema.field(name).type for name in key_names}
    keys, keys_found = fit_rows(uid, asked, kinds), found.select(list(kinds))
    rows = found
    if not keys_found.equals(keys):  # they are equal in most look-ups of one key
        rows = found.take(_places(keys_found, keys))
    for name in kinds:
        rows = rows.set_column(rows.column_names.index(name), name, keys.column(name))
    return rows


def _places(found: pa.Table, asked: pa.Table) -> pa.Array:
    """For each requested key its row among the keys found; null if it is not there."""
    both = pa.concat_tables([found, asked])
    columns = [column.combine_chunks() for column in both.columns]
    key = find_distinct(hash_keys(columns), columns).key
    of_found, of_asked = key[: len(found)], key[len(found) :]
    place = np.full(len(key), -1)
    place[of_found] = np.arange(len(found))
    at = place[of_asked]
    return pa.array(at, mask=at < 0)
