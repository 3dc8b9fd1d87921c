"""A user's accumulator, as the table computes with it and as a definition stores it.

A definition names the class, as `package.module:Class(col)`, and contains a row with the columns of
its state, so definitions can be compared without the class.
"""

import base64
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from idlestate.backends.runs.fields import Field, slice_field
from idlestate.backends.runs.python_values import column_of
from idlestate.backends.shards.accumulator import Accumulator
from idlestate.config.sql.aggregate_text import AggregateError
from idlestate.errors import RefusedError

Ints = npt.NDArray[np.int64]
Classes = Mapping[str, type[Accumulator]]
"""Users' classes by their reference in definitions."""
_RESULT = "result"


class AccumulatorError(RefusedError, ValueError):
    """A user's accumulator raised an error, or returned something other than it declares."""


@dataclass(frozen=True)
class OwnAccumulator:
    """A user's accumulator. Its fields are the columns of the state, as Arrow arrays."""

    name: str
    """The aggregate's name, for errors."""
    reference: str
    columns: tuple[str, ...]
    blank: pa.RecordBatch
    """One row: the state without records, then a null of the result type."""
    given: Accumulator | None
    """The user's object; None if the class is imported on first use."""

    @property
    def field_types(self) -> tuple[pa.DataType, ...]:
        """The types of the fields."""
        return tuple(self.blank.schema.types[:-1])

    @property
    def result_type(self) -> pa.DataType:
        """The type of the result."""
        return self.blank.schema.types[-1]

    @property
    def written(self) -> str:
        """The state as a definition stores it."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.blank.schema) as writer:
            writer.write_batch(self.blank)
        return base64.b64encode(sink.getvalue()).decode()

    def lift(self, values: dict[str, pa.Array], is_write: npt.NDArray[np.bool_]) -> list[Field]:
        """The state after each record; for reads, the state without records."""
        rows = np.flatnonzero(is_write)
        if not len(rows):
            return self._blanks(len(is_write))
        columns = [values[name] for name in self.columns]
        if len(rows) < len(is_write):
            columns = [column.take(pa.array(rows)) for column in columns]
        state = self._states("update", len(rows), self._blanks(len(rows)), columns)
        if len(rows) == len(is_write):
            return state
        source = np.zeros(len(is_write), dtype=np.int64)
        source[rows] = 1 + np.arange(len(rows))
        pairs = zip(self._blanks(1), state, strict=True)
        return [pa.concat_arrays(pair).take(pa.array(source)) for pair in pairs]

    def reduce(self, fields: list[Field], starts: Ints) -> list[Field]:
        """The state of each segment."""
        rows = [slice_field(field, int(starts[0]), len(field)) for field in fields]
        sizes = np.diff(np.append(starts, len(fields[0])))
        if (sizes == 1).all():
            return rows
        group = np.repeat(np.arange(len(starts)), sizes)
        return self._states("merge", len(starts), rows, group, len(starts))

    def result(self, fields: list[Field]) -> pa.Array:
        """The results."""
        rows = len(fields[0])
        if not rows:
            return pa.array([], self.result_type)
        return self._call("result", list(fields), read=lambda it: _as(it, self.result_type, rows))

    @cached_property
    def made(self) -> Accumulator:
        """The user's object.

        Raises:
            AggregateError: its class cannot be imported.
            AccumulatorError: its declared state differs from the stored one.
        """
        if self.given is not None:
            return self.given
        made = class_of(self.name, self.reference)(*self.columns)
        now, was = state_of(blank_of(self.name, made)), state_of(self.blank)
        if now != was:
            raise self._error(f"declares {listed(now)}, but the stored state is {listed(was)}")
        return made

    def need_class(self) -> None:
        """Import the class, if that has not happened.

        Raises:
            AggregateError, AccumulatorError: as in `made`.
        """
        self.made  # noqa: B018 - made when it is asked for

    def _blanks(self, rows: int) -> list[Field]:
        at = pa.array(np.zeros(rows, dtype=np.int64))
        return [column.take(at) for column in self.blank.columns[:-1]]

    def _states(self, method: str, rows: int, *args: Any) -> list[Field]:
        def read(found: Any) -> list[Field]:
            if not isinstance(found, Sequence) or len(found) != len(self.field_types):
                names = ", ".join(self.blank.schema.names[:-1])
                raise ValueError(f"it must return the columns {names}")
            pairs = zip(found, self.field_types, strict=True)
            return [_as(column, kind, rows) for column, kind in pairs]

        found: list[Field] = self._call(method, *args, read=read)
        return found

    def _call(self, method: str, *args: Any, read: Callable[[Any], Any]) -> Any:
        made = self.made
        try:
            return read(getattr(made, method)(*args))
        except MemoryError:
            raise
        except Exception as error:
            raise self._error(f"{method} raised {type(error).__name__}: {error}") from error

    def _error(self, what: str) -> AccumulatorError:
        return AccumulatorError(f"aggregate {self.name} ({self.reference}): {what}")


def reference_of(made: Accumulator) -> str:
    """The reference to an accumulator's class in a definition."""
    kind = type(made)
    return f"{kind.__module__}:{kind.__qualname__}"


def loaded_class(reference: str) -> type[Accumulator] | None:
    """The class, if its module is already loaded."""
    module, _, path = reference.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    is_one = isinstance(found, type) and issubclass(found, Accumulator)
    return found if is_one else None


def class_of(name: str, reference: str) -> type[Accumulator]:
    """The class, imported.

    Raises:
        AggregateError: it cannot be imported, or is not an accumulator.
    """
    module = reference.partition(":")[0]
    try:
        import_module(module)
    except Exception as error:
        raise AggregateError(
            f"aggregate {name}: module {module} of {reference} cannot be imported here: {error}; "
            "put it on the Python path"
        ) from error
    found = loaded_class(reference)
    if found is None:
        raise AggregateError(
            f"aggregate {name}: {reference} is not found here, or not an idlestate.Accumulator; "
            "define it at the top level of a module that can be imported"
        )
    return found


def blank_of(name: str, made: Accumulator) -> pa.RecordBatch:
    """A row with the state without records, and a null of the result type.

    Raises:
        AggregateError: the class does not declare the state, or does not match its declaration.
    """
    try:
        state, initial = dict(made.state), list(made.init())
        columns = [
            column_of([value], kind) for value, kind in zip(initial, state.values(), strict=True)
        ]
        columns.append(pa.nulls(1, made.result_type))
        return pa.RecordBatch.from_arrays(columns, names=[*state, _RESULT])
    except Exception as error:
        raise AggregateError(
            f"aggregate {name}: {reference_of(made)} needs a mapping `state` of names to Arrow "
            "types, a `result_type`, and an `init` that returns a value for each column of the "
            f"state: {error}"
        ) from error


def read_blank(written: str) -> pa.RecordBatch:
    """The row in a definition.

    Raises:
        ValueError: the text does not contain one.
    """
    try:
        return pa.ipc.open_stream(base64.b64decode(written)).read_next_batch()
    except (ValueError, OSError, StopIteration) as error:
        raise ValueError(f"own is not an Arrow stream in base64: {error}") from error


def _as(found: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """An array in the form that the engine uses."""
    array = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if not isinstance(array, pa.Array):
        array = pa.array(array)
    if len(array) != rows:
        raise ValueError(f"it must return {rows} rows, not {len(array)}")
    return array if array.type == kind else array.cast(kind)


def state_of(blank: pa.RecordBatch) -> pa.Schema:
    """The columns of the state."""
    return pa.schema(list(blank.schema)[:-1])


def listed(state: pa.Schema) -> str:
    """The columns of a state in words."""
    return ", ".join(f"{field.name}: {field.type}" for field in state)
