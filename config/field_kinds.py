"""Kinds of field values: how to read a value from plain data, and its JSON Schema.

A kind annotates a type: `Annotated[int, FieldKind(read, schema)]`. `read` takes the value in the
file and returns the value that the program uses, or raises `refuse(what, fix)`. Kinds of numbers
are in `number_kinds`, of sizes in `size_kinds`, of durations and instants in `time_kinds`, of
names, columns and paths in `text_kinds`, of addresses in `listen_address`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from idlestate.config.nearest_name import nearest
from idlestate.retention.policy import TimeDomain, UpdateType
from idlestate.retention.shown_values import show

REFUSAL = "refused"
"""The type of the errors that `refuse` returns; their context holds `what` and `fix`."""

_Member = TypeVar("_Member", bound=StrEnum)


@dataclass(frozen=True, eq=False)  # kinds compare by identity
class FieldKind:
    """Reads one kind of value; `schema` is its JSON Schema."""

    read: Callable[[Any], Any]
    schema: dict[str, Any]

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Let `read` decide alone."""
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe what `read` accepts."""
        return dict(self.schema)


def refuse(what: str, fix: str) -> PydanticCustomError:
    """The error for a value that cannot be read: what is wrong, and how to fix it."""
    return PydanticCustomError(REFUSAL, "{what}; {fix}", {"what": what, "fix": fix})


def _read_word(value: object, words: tuple[str, ...], hint: str = "") -> str:
    if isinstance(value, str) and value in words:
        return value
    meant = nearest(value, words, likeness=0.8) if isinstance(value, str) else None
    what = f"{show(value)} is not one of {', '.join(words)}"
    raise refuse(what + hint, f"use {meant or ' or '.join(words)}")


def _words(*words: str, hint: str = "") -> FieldKind:
    return FieldKind(partial(_read_word, words=words, hint=hint), {"enum": list(words)})


def _members(enum: type[_Member]) -> FieldKind:
    words = tuple(member.value for member in enum)
    return FieldKind(lambda value: enum(_read_word(value, words)), {"enum": list(words)})


Update = Annotated[UpdateType, _members(UpdateType)]
Time = Annotated[TimeDomain, _members(TimeDomain)]
Format = Annotated[Literal["parquet", "json", "csv"], _words("parquet", "json", "csv")]
Backend = Annotated[Literal["spark", "rocksdb", "heap"], _words("spark", "rocksdb", "heap")]
NullKey = Annotated[Literal["keep", "reject"], _words("keep", "reject")]
Operator = Annotated[
    Literal["retain", "deduplicate", "over", "process", "co_process", "join", "join_asof"],
    _words("retain", "deduplicate", "over", "process", "co_process", "join", "join_asof"),
]
JoinHow = Annotated[
    Literal["inner", "left", "right", "full", "semi", "anti"],
    _words("inner", "left", "right", "full", "semi", "anti"),
]
OnError = Annotated[Literal["stop", "reject"], _words("stop", "reject")]
Keep = Annotated[Literal["first", "last"], _words("first", "last")]
Store = Annotated[Literal["rocksdb", "heap"], _words("rocksdb", "heap")]


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise refuse(f"expected true or false, found {show(value)}", "use true or false")
    return value


Flag = Annotated[bool, FieldKind(_read_flag, {"type": "boolean"})]
