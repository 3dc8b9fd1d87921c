"""The value of a plain (unquoted) YAML scalar, if every YAML reader agrees on it.

YAML 1.1 and 1.2 disagree on many plain scalars: `no` is false or text, `010` is 8 or 10, `1:30` is
90 or text, `1e5` is text or a number, `2015-09-12` is a date or text. A configuration must mean the
same to every reader, so these are refused, with an unambiguous spelling as the fix.

Accepted: `true` and `false`, whole numbers of up to 18 digits, decimal fractions, text.
"""

import re

from idlestate.retention.shown_values import show

_BOOLEANS = {"true": True, "True": True, "TRUE": True}
_BOOLEANS |= {"false": False, "False": False, "FALSE": False}
_SWITCHES = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_NOTHING = {"", "~", "null", "Null", "NULL"}

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,18}")

_TOO_LONG = re.compile(r"-?(?=.*[0-9]{19})[0-9]+(?:\.[0-9]+)?")

_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_OCTAL = re.compile(r"[-+]?0[0-9_]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?", re.DOTALL)
_NUMBER = re.compile(
    r"[-+]?(?:0x[0-9a-f_]+|0o[0-7_]+|0b[01_]+"
    r"|[0-9][0-9_]*(?:\.[0-9_]*)?(?:e[-+]?[0-9]+)?"
    r"|\.[0-9][0-9_]*(?:e[-+]?[0-9]+)?"
    r"|\.inf|\.nan)",
    re.IGNORECASE,
)


class ScalarError(ValueError):
    """A plain scalar is refused; `fix` says what to use instead."""

    def __init__(self, what: str, fix: str) -> None:
        """Take what is wrong and how to fix it."""
        self.what = what
        self.fix = fix
        super().__init__(f"{what}; {fix}")


def read_plain(text: str) -> bool | int | float | str:
    """The value of a plain scalar.

    Raises:
        ScalarError: YAML readers disagree about it, or it is null, which no field accepts.
    """
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return float(text)
    _refuse_traps(text)
    return text


def _refuse_traps(text: str) -> None:
    quoted = show(text)
    shown = quoted[1:-1]
    if text in _NOTHING:
        raise ScalarError(
            "the value is missing",
            "add one or remove the line (text that contains a comma or # needs quotes)",
        )
    if meant := _SWITCHES.get(text.lower()):
        never = "never to turn a rule off, " if meant == "false" else ""
        raise ScalarError(
            f"{shown} is a boolean to some YAML parsers and text to others",
            f"use {meant} for the boolean, {never}or {quoted} for the text",
        )
    if _BASE_60.fullmatch(text):
        raise ScalarError(
            f"{shown} is a base-60 number to some YAML parsers",
            f"use a duration such as 1h30m, or {quoted} for the text",
        )
    if _OCTAL.fullmatch(text):
        digits = text.replace("_", "").lstrip("+-0") or "0"
        raise ScalarError(
            f"{shown} is an octal number to some YAML parsers",
            f"use {show(digits)[1:-1]} for the number, or {quoted} for the text",
        )
    if _DATE.fullmatch(text):
        raise ScalarError(
            f"{shown} is a date to some YAML parsers and text to others",
            f"put it in quotes: {quoted}",
        )
    if _TOO_LONG.fullmatch(text):
        raise ScalarError(
            f"{shown} is not the same number to all YAML parsers",
            f"use at most 18 digits, or {quoted} for the text",
        )
    if _NUMBER.fullmatch(text):
        raise ScalarError(
            f"{shown} is not the same number to all YAML parsers",
            f"use plain digits, or {quoted} for the text",
        )
