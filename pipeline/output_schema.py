"""The columns that a function yields, as text: `output="id string, n long"`."""

import re

import pyarrow as pa

from idlestate.pipeline.arguments import Arguments

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    **dict.fromkeys(("tinyint", "byte"), pa.int8()),
    **dict.fromkeys(("smallint", "short"), pa.int16()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("bigint", "long"), pa.int64()),
    **dict.fromkeys(("float", "real"), pa.float32()),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_COLUMN = re.compile(
    r"\s*(?:`([^`]+)`|(\w+))\s*:?\s+(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*"
)


def output_schema(given: Arguments, output: object) -> pa.Schema:
    """The columns of `output`, a text such as `id string, at timestamp`.

    Raises:
        RefusedError: the text is not valid; the error says what is accepted.
    """
    if not isinstance(output, str) or not output.strip():
        raise given.refused(
            f"output {output!r} is not valid; pass a string such as 'id string, n long'"
        )
    fields: list[tuple[str, pa.DataType]] = []
    for text in re.split(r",(?![^(]*\))", output):
        match = _COLUMN.fullmatch(text)
        kind = match and _type(match[3].lower(), match[4], match[5])
        if match is None or kind is None:
            raise given.refused(
                f"output column {text.strip()!r} is not valid; pass a name and one of the types "
                f"{', '.join(_TYPES)}, decimal(p, s)"
            )
        fields.append((match[1] or match[2], kind))
    names = [name.lower() for name, _ in fields]  # Spark SQL ignores case
    twice = next((name for name, _ in fields if names.count(name.lower()) > 1), None)
    if twice is not None:
        raise given.refused(f"output has column {twice} twice; use another name")
    return pa.schema(fields)


def _type(name: str, precision: str | None, scale: str | None) -> pa.DataType | None:
    if name not in ("decimal", "numeric"):
        return None if precision else _TYPES.get(name)
    digits = int(precision or 10)
    return pa.decimal128(digits, int(scale or 0)) if 1 <= digits <= 38 else None
