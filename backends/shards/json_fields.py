"""Reads JSON values back into the dataclasses that were written, and checks every field.

A value must have the type that its field declares: `int` (from 0 to the largest int64), `str`,
`bool`, a dict, a list, a tuple, another dataclass, or one of these and None. A field may be left
out if it has a default.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from idlestate.retention.shown_values import show

_MOST = 2**63 - 1
_T = TypeVar("_T")
_Read = Callable[[Any, str], Any]
_WORDS: dict[type, str] = {str: "text", bool: "true or false", dict: "a mapping"}


class FieldError(ValueError):
    """A field is missing, unknown or not valid; the text begins with its path."""


def read_fields(kind: type[_T], value: object) -> _T:
    """A value as this dataclass, or as a list or tuple of dataclasses.

    Args:
        kind: the type.
        value: as `json` reads it; tuples count as lists.

    Raises:
        FieldError: a field is missing, unknown or of another type, or the dataclass refuses it.
    """
    found: _T = _reader(cast("Any", kind))(value, "")
    return found


@cache
def _reader(kind: Any) -> _Read:
    """A function that reads a value of a type at a path such as `definitions[0]`."""
    if is_dataclass(kind):
        return partial(_object, kind, _fields_of(kind))
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin is UnionType:
        return partial(_optional, _reader(parts[0]))
    if origin is list or (origin is tuple and parts[-1] is Ellipsis):
        return partial(_list, origin, _reader(parts[0]))
    if origin is tuple:
        return partial(_tuple, tuple(map(_reader, parts)))
    return _int if origin is int else partial(_plain, origin)


def _object(kind: Any, known: dict[str, tuple[_Read, bool]], value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise _wrong(path, "a mapping", value)
    prefix = f"{path}." if path else ""
    if unknown := value.keys() - known.keys():
        raise FieldError(f"{prefix}{min(unknown)} is not a known field")
    found = {}
    for name, (read, is_needed) in known.items():
        if name in value:
            found[name] = read(value[name], f"{prefix}{name}")
        elif is_needed:
            raise FieldError(f"{prefix}{name} is missing")
    try:
        return kind(**found)
    except ValueError as error:
        raise FieldError(f"{path}: {error}" if path else str(error)) from error


def _optional(read: _Read, value: Any, path: str) -> Any:
    return None if value is None else read(value, path)


def _list(origin: Callable[[Iterable[Any]], Any], read: _Read, value: Any, path: str) -> Any:
    return origin(read(each, f"{path}[{at}]") for at, each in enumerate(_items(value, path)))


def _tuple(reads: tuple[_Read, ...], value: Any, path: str) -> tuple[Any, ...]:
    items = _items(value, path)
    if len(items) != len(reads):
        raise FieldError(f"{path} must have {len(reads)} values, not {len(items)}")
    both = enumerate(zip(reads, items, strict=True))
    return tuple(read(each, f"{path}[{at}]") for at, (read, each) in both)


def _items(value: Any, path: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise _wrong(path, "a list", value)
    return value


def _int(value: Any, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise _wrong(path, f"an int from 0 to {_MOST}", value)
    return value


def _plain(kind: type, value: Any, path: str) -> Any:
    if not isinstance(value, kind):
        raise _wrong(path, _WORDS[kind], value)
    return value


def _wrong(path: str, what: str, value: object) -> FieldError:
    return FieldError(f"{path or 'its content'} must be {what}, not {show(value)}")


def _fields_of(kind: Any) -> dict[str, tuple[_Read, bool]]:
    """The reader of each field, and whether the field is required."""
    types = get_type_hints(kind)
    return {
        each.name: (
            _reader(types[each.name]),
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
    }
