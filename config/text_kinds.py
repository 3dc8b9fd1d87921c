"""Kinds of values that are text: names, patterns, columns, aggregates, paths."""

import re
from functools import partial
from typing import Annotated, Any

from idlestate.config.field_kinds import FieldKind, refuse
from idlestate.config.url_secrets import holds_secret, without_secrets
from idlestate.config.urls import is_url
from idlestate.retention.shown_values import show

NAME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
GLOB_PATTERN = "^[A-Za-z0-9*?][A-Za-z0-9._*?-]{0,62}$"
MAX_TEXT = 255
MAX_PATH = 4096
MAX_COLUMNS = 1000

_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_<>(),: ]{0,254}")


def _read_text(value: object, noun: str, example: str, longest: int = MAX_TEXT) -> str:
    if not isinstance(value, str):
        raise refuse(f"expected {noun}, found {show(value)}", f"use text, such as {example}")
    if not value.strip():
        raise refuse(f"{noun} cannot be empty", f"set one, such as {example}")
    if value != value.strip() or not value.isprintable():
        raise refuse(f"{show(value)} has spaces around it or a line break in it", "remove them")
    if len(value) > longest:
        raise refuse(f"{noun} of {len(value)} characters is too long", f"use at most {longest}")
    return value


def _text(noun: str, example: str) -> FieldKind:
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
    return FieldKind(partial(_read_text, noun=noun, example=example), schema)


_COLUMN = _text("a column name", "user_id")
Column = Annotated[str, _COLUMN]
Aggregate = Annotated[str, _text("an aggregate", "count or max(event_time)")]
TimePattern = Annotated[str, _text("a time pattern", "yyyy-MM-dd HH:mm:ss")]


def _read_columns(value: object, least: int) -> tuple[str, ...]:
    if isinstance(value, str):
        raise refuse("expected a list of columns, found text", f"use [{show(value)[1:-1]}]")
    if not isinstance(value, list):
        raise refuse(f"expected a list of columns, found {show(value)}", "use [user_id]")
    if not least <= len(value) <= MAX_COLUMNS:
        fix = f"use {least} to {MAX_COLUMNS}, such as [user_id]"
        raise refuse(f"{len(value)} columns are not allowed", fix)
    names: list[str] = [_COLUMN.read(each) for each in value]
    seen: dict[str, str] = {}
    for name in names:
        if twin := seen.get(name.lower()):
            also = "" if twin == name else f" ({show(twin)} is the same column to Spark)"
            raise refuse(f"{show(name)} is listed twice{also}", "remove one of them")
        seen[name.lower()] = name
    return tuple(names)


def _columns(least: int) -> FieldKind:
    schema = {"type": "array", "items": _COLUMN.schema, "minItems": least, "uniqueItems": True}
    return FieldKind(partial(_read_columns, least=least), schema)


KeyColumns = Annotated[tuple[str, ...], _columns(1)]
OrderColumns = Annotated[tuple[str, ...], _columns(0)]


def _read_query(value: object) -> str:
    fix = "write query: |, and below it SELECT ... FROM source GROUP BY ..."
    if not isinstance(value, str):
        raise refuse(f"expected a query, found {show(value)}", fix)
    if not value.strip():
        raise refuse("the query is empty", fix)
    return value


Query = Annotated[str, FieldKind(_read_query, {"type": "string", "minLength": 1})]
"""A query in SQL, which may have several lines."""


def _read_matching(value: object, pattern: str, noun: str, form: str, fix: str) -> str:
    if not isinstance(value, str):
        raise refuse(f"expected {noun}, found {show(value)}", fix)
    if not re.fullmatch(pattern.removesuffix("$"), value):
        raise refuse(f"{show(value)} is not {form}", fix)
    return value


def _matching(pattern: str, noun: str, form: str, fix: str) -> FieldKind:
    read = partial(_read_matching, pattern=pattern, noun=noun, form=form, fix=fix)
    return FieldKind(read, {"type": "string", "pattern": pattern})


_WORD = "[A-Za-z_][A-Za-z0-9_]"
_TABLE = "the name of a table"
Table = Annotated[
    str,
    _matching(f"^{_WORD}{{0,62}}$", _TABLE, _TABLE, "use letters, digits and _, such as orders"),
]
"""The name of a table in a query."""
ClassName = Annotated[
    str,
    _matching(
        rf"^{_WORD}*(\.{_WORD}*)*:{_WORD}*$",
        *("a class", "a module and a class", "use text such as my_job.alerts:Alert"),
    ),
]
"""A class of a module that Python can import, as `module:Class`."""


def _read_place(value: object) -> str:
    return take_as_written(_read_text(value, "a path", "build/clicks", MAX_PATH))


def take_as_written(path: str) -> str:
    """Refuse text that only a shell expands; this applies to every path in a file."""
    fix = "use the full path"
    if path.startswith("~"):
        raise refuse(f"{show(path)}: ~ is not expanded in configuration files", fix)
    if variable := _VARIABLE.search(path):
        what = f"{show(path)}: {variable[0]} is not expanded in configuration files"
        raise refuse(what, fix)
    return path


Place = Annotated[
    str, FieldKind(_read_place, {"type": "string", "minLength": 1, "maxLength": MAX_PATH})
]
"""A path, or a URI that Spark can open; a relative path counts from the working directory."""


def _read_local_place(value: object) -> str:
    text = _read_place(value)
    if is_url(text):
        path = re.sub("^file:(//[^/]*)?", "", text)
        fix = "use a path" if path in ("", text) else f"use {path}"
        raise refuse(f"{show(text)} is a URL, and only a path is allowed here", fix)
    return text


LocalPlace = Annotated[
    str,
    FieldKind(
        _read_local_place,
        {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_PATH,
            "pattern": "^(?!file:)(?!.*://)",
        },
    ),
]
"""A path; a relative one counts from the working directory."""


def _read_runs(value: object) -> str:
    text = _read_place(value)
    if holds_secret(text):
        what = (
            f"{show(without_secrets(text))} contains a secret, which would be stored with the state"
        )
        raise refuse(what, "pass it in the environment, such as AWS_SECRET_ACCESS_KEY")
    return text


RunsPlace = Annotated[
    str, FieldKind(_read_runs, {"type": "string", "minLength": 1, "maxLength": MAX_PATH})
]
"""A path, or a URL of an object store or file system; without names and passwords."""


def _read_character(value: object) -> str:
    if not isinstance(value, str) or len(value) != 1:
        fix = 'use one character in quotes, such as ";" or "\\t"'
        raise refuse(f"{show(value)} is not a single character", fix)
    return value


Character = Annotated[
    str, FieldKind(_read_character, {"type": "string", "minLength": 1, "maxLength": 1})
]


def _read_ddl(value: object) -> str:
    """The columns of a source as Spark writes them: `` `user` string, `n` bigint ``."""
    fix = 'use "user string, n bigint", or a mapping such as {user: string, n: bigint}'
    if isinstance(value, str) and value.strip():
        return " ".join(value.split())
    if not isinstance(value, dict) or not 0 < len(value) <= MAX_COLUMNS:
        raise refuse(f"expected columns and their types, found {show(value)}", fix)
    parts = []
    for name, kind in value.items():
        if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
            raise refuse(f"{show(kind)} is not a valid type for column {show(name)}", fix)
        parts.append("`{}` {}".format(_COLUMN.read(name).replace("`", "``"), kind))
    return ", ".join(parts)


_DDL_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
    ]
}
Ddl = Annotated[str, FieldKind(_read_ddl, _DDL_SCHEMA)]


def _read_name(value: object, pattern: str, noun: str, characters: str) -> str:
    if not isinstance(value, str):
        raise refuse(f"expected a {noun}, found {show(value)}", "use text, such as sessions")
    if not re.fullmatch(pattern.removesuffix("$"), value):
        fix = f"use at most 63 of {characters}, not starting with a dot, dash or underscore"
        raise refuse(f"{show(value)} is not a valid {noun}", fix)
    if ".." in value or value.endswith("."):
        raise refuse(f"{show(value)} has two dots in a row or ends with a dot", "use another name")
    return value


def _name(pattern: str, noun: str, characters: str) -> FieldKind:
    read = partial(_read_name, pattern=pattern, noun=noun, characters=characters)
    return FieldKind(read, {"type": "string", "pattern": pattern})


Name = Annotated[str, _name(NAME_PATTERN, "name", "A-Z a-z 0-9 . _ -")]
"""The name of a policy or an operator; safe as a folder and as the label of a metric."""

Glob = Annotated[str, _name(GLOB_PATTERN, "name or pattern", "A-Z a-z 0-9 . _ - * ?")]
"""A name, or a pattern: `*` matches any characters, `?` exactly one."""
