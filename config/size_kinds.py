"""Kinds of values that are sizes, as int bytes: `2GB`, `512MiB`, or a number of bytes."""

import re
from typing import Annotated

from idlestate.config.field_kinds import FieldKind, refuse
from idlestate.retention.shown_values import show

_DECIMAL = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
UNITS = _DECIMAL | _BINARY
MAX_BYTES = 10**15

_PATTERN = f"^[0-9]{{1,15}}({'|'.join(UNITS)})$"
_FIX = "use a size such as 512MB, 2GB or 2GiB"


def _read_size(value: object) -> int:
    if isinstance(value, str) and re.fullmatch(_PATTERN, value):
        digits = value.rstrip("BKMGTi")
        size = int(digits) * UNITS[value.removeprefix(digits)]
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise refuse(f"{show(value)} is not a valid size", _FIX)
    if not 1 <= size <= MAX_BYTES:
        raise refuse(f"{show(value)} is out of range", "use a size from 1B to 1000TB")
    return size


Size = Annotated[
    int,
    FieldKind(
        _read_size,
        {
            "anyOf": [
                {"type": "string", "pattern": _PATTERN},
                {"type": "integer", "minimum": 1, "maximum": MAX_BYTES},
            ]
        },
    ),
]
"""A size in bytes, above 0."""
