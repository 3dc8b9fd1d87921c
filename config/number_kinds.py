"""Kinds of values that are numbers: whole numbers between bounds, rows of a frame, percentages."""

import re
from functools import partial
from typing import Annotated, Literal

from idlestate.config.field_kinds import FieldKind, refuse
from idlestate.config.sql.aggregate_text import MOST_ROWS
from idlestate.retention.shown_values import show


def _read_whole(value: object, least: int, most: int) -> int:
    fix = f"use {least}" if least == most else f"use a whole number from {least} to {most}"
    if not isinstance(value, int) or isinstance(value, bool):
        raise refuse(f"expected a whole number, found {show(value)}", fix)
    if not least <= value <= most:
        raise refuse(f"{show(value)} is out of range", fix)
    return value


def whole(least: int, most: int) -> FieldKind:
    """Whole numbers between two bounds, both included."""
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return FieldKind(partial(_read_whole, least=least, most=most), schema)


def _read_frame_rows(value: object) -> int | str:
    return value if value == _UNBOUNDED else _read_whole(value, 1, MOST_ROWS)


_UNBOUNDED = "unbounded"
_ROWS_SCHEMA = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": MOST_ROWS},
        {"enum": [_UNBOUNDED]},
    ]
}
FrameRows = Annotated[int | Literal["unbounded"], FieldKind(_read_frame_rows, _ROWS_SCHEMA)]
"""The rows of a frame of `over`, or `unbounded`."""


def _read_share(value: object) -> float:
    if not isinstance(value, str) or not re.fullmatch(_PERCENT, value):
        raise refuse(f"expected a percentage, found {show(value)}", "use 0% to 100%, such as 80%")
    return int(value.removesuffix("%")) / 100


_PERCENT = "^(100|[1-9]?[0-9])%$"
Share = Annotated[float, FieldKind(_read_share, {"type": "string", "pattern": _PERCENT})]
"""A share from 0 to 1, written as a percentage."""
