"""Creates the state of a descriptor."""

from typing import Any

from idlestate.state.aggregating_state import AggregatingState, TtlAggregatingState
from idlestate.state.descriptors import StateDescriptor, StateKind
from idlestate.state.key_context import KeyContext
from idlestate.state.list_state import ListState, TtlListState
from idlestate.state.map_state import MapState
from idlestate.state.reducing_state import ReducingState, TtlReducingState
from idlestate.state.table import Table
from idlestate.state.ttl_layer import Ttl
from idlestate.state.ttl_map_state import TtlMapState
from idlestate.state.value_state import TtlValueState, ValueState

_CLASSES: dict[StateKind, tuple[Any, Any]] = {
    StateKind.VALUE: (ValueState, TtlValueState),
    StateKind.LIST: (ListState, TtlListState),
    StateKind.MAP: (MapState, TtlMapState),
    StateKind.REDUCING: (ReducingState, TtlReducingState),
    StateKind.AGGREGATING: (AggregatingState, TtlAggregatingState),
}


def state_over(
    descriptor: StateDescriptor[Any], table: Table, context: KeyContext, ttl: Ttl | None
) -> Any:
    """The state of a descriptor over its table; with a time to live if `ttl` is given."""
    plain, timed = _CLASSES[descriptor.kind]
    return (plain if ttl is None else timed)(descriptor, table, context, ttl)
