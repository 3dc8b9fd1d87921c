"""The states that a function declares, and the cells through which it accesses them."""

import copy
from collections.abc import Sequence
from typing import Any

from idlestate.backends.shards.function_state_columns import StateColumns, check_type
from idlestate.errors import RefusedError
from idlestate.functions.function import KeyedProcessFunction
from idlestate.functions.function_context import FunctionContext
from idlestate.functions.state_cells import (
    AggregatingCell,
    Cell,
    ListCell,
    MapCell,
    ReducingCell,
    ValueCell,
)
from idlestate.functions.ttl_cells import (
    TtlAggregatingCell,
    TtlListCell,
    TtlMapCell,
    TtlReducingCell,
    TtlValueCell,
)
from idlestate.state.descriptors import StateDescriptor, StateKind

_CELLS: dict[StateKind, tuple[type[Cell], type[Cell]]] = {
    StateKind.VALUE: (ValueCell, TtlValueCell),
    StateKind.LIST: (ListCell, TtlListCell),
    StateKind.MAP: (MapCell, TtlMapCell),
    StateKind.REDUCING: (ReducingCell, TtlReducingCell),
    StateKind.AGGREGATING: (AggregatingCell, TtlAggregatingCell),
}


class OpenFunction:
    """An opened function, whose states are known.

    Attributes:
        function: the function.
        context: the context of its calls.
        cells: its states by name, in order of declaration.
    """

    def __init__(self, function: KeyedProcessFunction) -> None:
        """Find the states declared as class attributes, then those requested in `open`.

        Raises:
            RefusedError: a state is not valid.
        """
        self.function = function
        self.cells: dict[str, Cell] = {}
        self._declared: dict[str, StateDescriptor[Any]] = {}
        self.context = FunctionContext(self.cells)
        for each in vars_of(function):
            self.declare(each)
        opening = _Opening(self)
        function.open(opening)

    def declare(self, descriptor: StateDescriptor[Any]) -> Cell:
        """Declare a state, and return its cell."""
        known = self._declared.get(descriptor.name)
        if known is None:
            _check(descriptor)
            plain, timed = _CELLS[descriptor.kind]
            cell = (plain if descriptor.ttl is None else timed)(descriptor, self.context)
            self._declared[descriptor.name], self.cells[descriptor.name] = descriptor, cell
        elif known is not descriptor and known != descriptor:
            raise RefusedError(f"state {descriptor.name!r} is declared twice; rename one of them")
        return self.cells[descriptor.name]

    @property
    def declared(self) -> list[StateDescriptor[Any]]:
        """The descriptors of its states, in order of declaration."""
        return list(self._declared.values())

    def columns(self) -> tuple[StateColumns, ...]:
        """The columns of its states, with ids starting at 0."""
        return tuple(
            StateColumns(
                each.name,
                each.kind.value,
                each.value_type,
                each.user_key_type,
                each.ttl is not None,
                number,
            )
            for number, each in enumerate(self._declared.values())
        )

    @property
    def ttls_ms(self) -> tuple[tuple[str, int], ...]:
        """Times to live by state name; states without one are omitted."""
        return tuple((each.name, each.ttl.ttl_ms) for each in self.declared if each.ttl is not None)


class _Opening(FunctionContext):
    """The context of `open`: requesting a state declares it; there is no key."""

    __slots__ = ("_owner",)

    def __init__(self, owner: OpenFunction) -> None:
        super().__init__(owner.cells)
        self._owner = owner

    def state(self, descriptor: StateDescriptor[Any]) -> Any:
        return self._owner.declare(descriptor)

    def _set(self, timer: str | int, at_ms: int) -> None:  # noqa: ARG002 - as of its class
        raise RefusedError(f"timer {timer!r} is set in open, where there is no key")


def vars_of(function: KeyedProcessFunction) -> Sequence[StateDescriptor[Any]]:
    """The descriptors among the attributes of a function and its classes."""
    found = dict[str, Any]()
    for each in reversed(type(function).__mro__):
        found.update(vars(each))
    found.update(getattr(function, "__dict__", {}))
    return [each for each in found.values() if isinstance(each, StateDescriptor)]


def opened_copy(function: KeyedProcessFunction) -> OpenFunction:
    """An opened copy of a function.

    Raises:
        RefusedError: a state is not valid.
    """
    return OpenFunction(copy.copy(function))


def _check(descriptor: StateDescriptor[Any]) -> None:
    what = f"state {descriptor.name!r}"
    is_element = descriptor.kind in (StateKind.LIST, StateKind.MAP)
    check_type(what, descriptor.value_type, is_element=is_element)
    if descriptor.user_key_type is not None:
        check_type(f"the key of {what}", descriptor.user_key_type, is_element=True)
    if descriptor.ttl is not None and descriptor.ttl.returns_expired:
        raise RefusedError(
            f"{what} returns expired values until they are cleaned up, which would depend on how "
            "records are divided into batches; use NEVER_RETURN_EXPIRED"
        )
