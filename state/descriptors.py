"""Descriptors of state: name, kind, types, time to live, and functions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa

from idlestate.backends.runs.python_values import value_in
from idlestate.retention.ttl_config import StateTtlConfig
from idlestate.state.errors import StateTypeError
from idlestate.state.settings import check_arrow_type, check_name

if TYPE_CHECKING:  # used in strings below; these modules import this one
    from idlestate.state.aggregating_state import AggregatingState
    from idlestate.state.list_state import ListState
    from idlestate.state.map_state import MapState
    from idlestate.state.reducing_state import ReducingState
    from idlestate.state.value_state import ValueState

In_contra = TypeVar("In_contra", contravariant=True)
Acc = TypeVar("Acc")
Out_co = TypeVar("Out_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)


class StateKind(Enum):
    """The kinds of keyed state."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"


class AggregateFunction(Protocol[In_contra, Acc, Out_co]):
    """Adds values to an accumulator, and computes its result."""

    def create_accumulator(self) -> Acc:
        """A new, empty accumulator."""

    def add(self, value: In_contra, accumulator: Acc) -> Acc:
        """The accumulator with the value added; it may change the given one, never a stored one."""

    def get_result(self, accumulator: Acc) -> Out_co:
        """The result for readers."""

    def merge(self, left: Acc, right: Acc) -> Acc:
        """Both merged; it may change the given ones, never stored ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDescriptor(Generic[S_co]):
    """Describes one state of a backend; `get_state` returns the state.

    Attributes:
        name: unique in the backend.
        value_type: Arrow type of stored values: the value, list element, map value, or accumulator.
        ttl: time to live of each value, element or entry; None for none.
        defaults: values for fields of this struct that stored ones lack.
    """

    kind: ClassVar[StateKind]

    name: str
    value_type: pa.DataType
    ttl: StateTtlConfig | None = None
    defaults: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("a state", self.name)
        self._check_type("value_type", self.value_type)
        if not isinstance(self.ttl, StateTtlConfig | None):
            raise StateTypeError(
                f"state {self.name}: ttl is {self.ttl!r}; pass a StateTtlConfig, such as "
                "StateTtlConfig(ttl='1h'), or None"
            )
        for name, value in self.defaults.items():
            if pa.types.is_struct(self.value_type) and self.value_type.get_field_index(name) >= 0:
                kind = self.value_type.field(name).type
                self._check_default(f"state {self.name!r}, field {name!r},", kind, value)

    def _check_type(self, field_name: str, kind: object) -> None:
        check_arrow_type(f"state {self.name}: {field_name}", kind)

    def _check_default(self, place: str, kind: pa.DataType, value: object) -> None:
        try:
            value_in(kind, value)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise StateTypeError(
                f"{place} is of type {kind}, {value!r} does not fit: {error}; "
                "pass a default of this type"
            ) from error

    @property
    def user_key_type(self) -> pa.DataType | None:
        """Type of the keys inside a map; None for other kinds."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueStateDescriptor(StateDescriptor["ValueState"]):
    """One value per key.

    Attributes:
        default: returned by `value()` for a key without a value. Not with a time to live: then a
            missing value is None, as in Flink.
    """

    kind: ClassVar[StateKind] = StateKind.VALUE

    default: Any = None

    def __post_init__(self) -> None:
        StateDescriptor.__post_init__(self)
        if self.default is not None:
            self._check_default(f"state {self.name!r}", self.value_type, self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListStateDescriptor(StateDescriptor["ListState"]):
    """A list per key; each element has its own time to live."""

    kind: ClassVar[StateKind] = StateKind.LIST


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStateDescriptor(StateDescriptor["MapState"]):
    """A map per key; each entry has its own time to live.

    Attributes:
        key_type: Arrow type of the keys inside the map.
    """

    kind: ClassVar[StateKind] = StateKind.MAP

    key_type: pa.DataType

    def __post_init__(self) -> None:
        StateDescriptor.__post_init__(self)
        self._check_type("key_type", self.key_type)

    @property
    def user_key_type(self) -> pa.DataType | None:
        """Type of the keys inside the map."""
        return self.key_type


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducingStateDescriptor(StateDescriptor["ReducingState"], Generic[Acc]):
    """One value per key, reduced from all added values.

    Attributes:
        reduce: merges two values into one of the same type.
    """

    kind: ClassVar[StateKind] = StateKind.REDUCING

    reduce: Callable[[Acc, Acc], Acc]

    def __post_init__(self) -> None:
        StateDescriptor.__post_init__(self)
        if not callable(self.reduce):
            raise StateTypeError(
                f"state {self.name}: reduce is {self.reduce!r}; pass a function of two values"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatingStateDescriptor(StateDescriptor["AggregatingState"]):
    """One accumulator per key; added values and results may have different types.

    Attributes:
        aggregate: adds values; `value_type` is the accumulator's type.
        result_type: Arrow type of results, for `get_many`; None if it is the accumulator's.
    """

    kind: ClassVar[StateKind] = StateKind.AGGREGATING

    aggregate: AggregateFunction[Any, Any, Any]
    result_type: pa.DataType | None = None

    def __post_init__(self) -> None:
        StateDescriptor.__post_init__(self)
        if self.result_type is not None:
            self._check_type("result_type", self.result_type)
        wanted = ("create_accumulator", "add", "get_result", "merge")
        missing = [each for each in wanted if not callable(getattr(self.aggregate, each, None))]
        if missing:
            raise StateTypeError(
                f"state {self.name}: aggregate is {self.aggregate!r}; pass an object with "
                f"{', '.join(missing)}"
            )


def check_descriptor(given: object) -> None:
    """Raise `StateTypeError` unless this is a descriptor."""
    if not isinstance(given, StateDescriptor):
        raise StateTypeError(
            f"{given!r} is not a descriptor: pass a ValueStateDescriptor, for example"
        )
