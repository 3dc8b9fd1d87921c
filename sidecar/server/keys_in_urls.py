"""Keys as the query of a URL, and lives as JSON.

`?customer=ada&day=2026-01-31`: each column once, in any order, percent-encoded, in UTF-8; the bytes
of a binary column are those of the URL. A name without `=` means null. In JSON, bytes are hex
text, times are ISO 8601 text, and NaN and infinity are text too.
"""

import math
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from urllib.parse import unquote_to_bytes

import pyarrow as pa

from idlestate.backends.shards.key_details import key_value


def key_of(query: str, keys: Sequence[tuple[str, pa.DataType]]) -> pa.Table:
    """The key in a query, in the types of its columns.

    Args:
        query: as received, each byte a character.
        keys: names and types of the key columns.

    Raises:
        ValueError: it names other columns, repeats one, or has a value of another type.
    """
    texts = texts_of(query)
    if sorted(texts) != sorted(name for name, _ in keys):
        example = "&".join(f"{name}=..." for name, _ in keys)
        raise ValueError(f"ask for one key as ?{example} (a name without = for null)")
    return pa.table({name: key_value(name, kind, texts[name]) for name, kind in keys})


def texts_of(query: str) -> dict[str, str | None]:
    """The columns that a query names, with the text of their values; None for null.

    Text that is not valid UTF-8 is accepted in binary columns only, unchanged.

    Raises:
        ValueError: it repeats a column, or a name is not valid UTF-8.
    """
    found: dict[str, str | None] = {}
    for part in filter(None, query.split("&")):
        encoded, is_given, value = part.partition("=")
        name = _bytes_of(encoded).decode()
        if name in found:
            raise ValueError(f"key column {name} is given twice")
        found[name] = _bytes_of(value).decode(errors="surrogateescape") if is_given else None
    return found


def shown(lives: pa.Table) -> list[dict[str, Any]]:
    """Lives as values for `json`."""
    columns = [[_plain(_value(each)) for each in column] for column in lives.columns]
    return [dict(zip(lives.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _bytes_of(text: str) -> bytes:
    return unquote_to_bytes(text.replace("+", " ").encode("latin-1"))


def _value(scalar: pa.Scalar) -> Any:
    if isinstance(scalar, pa.ListScalar) and scalar.is_valid:
        return [_plain(_value(each)) for each in scalar.values]  # a map: keys with values
    if isinstance(scalar, pa.StructScalar) and scalar.is_valid:
        return {name: _plain(_value(each)) for name, each in scalar.items()}
    try:
        return scalar.as_py()
    except (OverflowError, ValueError, LookupError):  # beyond Python's calendar or time zones
        return f"{scalar.value} of {scalar.type}"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return value if isinstance(value, (str, int, float, list, dict, type(None))) else str(value)
