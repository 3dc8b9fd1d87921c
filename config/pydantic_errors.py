"""Translates errors of pydantic: where, what is wrong, and how to fix it."""

from collections.abc import Iterable, Iterator
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from idlestate.config.field_kinds import REFUSAL
from idlestate.config.nearest_name import nearest
from idlestate.config.problems import FieldPath, Finding
from idlestate.config.yaml_loader import REFUSED
from idlestate.retention.shown_values import show


def findings_of(
    error: ValidationError, model: type[BaseModel], document: object
) -> Iterator[Finding]:
    """The findings of a document that `model` refused.

    Values that the file's reader already refused are skipped, since their problems are reported.
    """
    refused = set(refused_paths(document))
    for details in error.errors(include_url=False):
        path = tuple(step for step in details["loc"] if step != "[key]")
        of_kind = details["type"] == REFUSAL
        if not any(_told_by(path, other, of_kind) for other in refused):
            yield Finding(path, *_explain(details, path, model))


def refused_paths(document: object, path: FieldPath = ()) -> Iterator[FieldPath]:
    """The paths at which the reader refused a value."""
    if document is REFUSED:
        yield path
    steps: Iterable[tuple[str | int, object]] = ()
    if isinstance(document, dict):
        steps = document.items()
    elif isinstance(document, list):
        steps = enumerate(document)
    for step, value in steps:
        yield from refused_paths(value, (*path, step))


def _told_by(path: FieldPath, refused: FieldPath, of_kind: bool) -> bool:
    """Whether an error is a consequence of a refused value at, above or (for kinds) below it."""
    return path[: len(refused)] == refused or (of_kind and refused[: len(path)] == path)


def _explain(details: ErrorDetails, path: FieldPath, model: type[BaseModel]) -> tuple[str, str]:
    value: object = details.get("input")
    name = str(path[-1]) if path else ""
    match details["type"]:
        case str(kind) if kind == REFUSAL:
            return details["ctx"]["what"], details["ctx"]["fix"]
        case "missing":
            return f"{name} is missing", f"add {name}: {_example(_field_at(model, path))}"
        case "extra_forbidden":
            known = _fields_of(_model_at(model, path[:-1]))
            meant = nearest(name, known)
            what = f"unknown field {show(name)[1:-1]}"
            return what, f"use {meant}" if meant else f"the fields here are {', '.join(known)}"
        case "model_type" | "model_attributes_type" | "dict_type":
            fields = ", ".join(_fields_of(_model_at(model, path)))
            fix = f"its fields are {fields}" if fields else "use one `name: value` line per entry"
            return f"expected a mapping, found {show(value)}", fix
        case "tuple_type" | "list_type":
            return (
                f"expected a list, found {show(value)}",
                "put each entry on its own line after a dash",
            )
        case "too_short":
            return (
                "needs at least one entry",
                f"for example {name}: {_example(_field_at(model, path))}",
            )
        case _:
            return f"{show(value)} is not valid: {details['msg']}", "see config/clicks.yaml"


def _example(field: FieldInfo | None) -> str:
    return str(field.examples[0]) if field and field.examples else "..."


def _fields_of(model: type[BaseModel] | None) -> dict[str, FieldInfo]:
    """The fields of a model by their names in files."""
    if model is None:
        return {}
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _field_at(model: type[BaseModel], path: FieldPath) -> FieldInfo | None:
    return _fields_of(_model_at(model, path[:-1])).get(str(path[-1])) if path else None


def _model_at(model: type[BaseModel], path: FieldPath) -> type[BaseModel] | None:
    """The model of the section at a path; None for other kinds of values."""
    kind: Any = model
    for step in path:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = _fields_of(kind).get(str(step))
            kind = _bare(field.annotation) if field else None
        elif get_origin(kind) in (dict, tuple):
            kind = _bare(get_args(kind)[1 if get_origin(kind) is dict else 0])
        else:
            return None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _bare(kind: Any) -> Any:
    """A type without its metadata and without None."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) is UnionType or str(get_origin(kind)) == "typing.Union":
        return next(_bare(each) for each in get_args(kind) if each is not type(None))
    return kind
