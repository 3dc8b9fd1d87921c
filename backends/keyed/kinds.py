"""From a descriptor to the state it describes."""

from typing import Any

from idlestate.backends.keyed.aggregating_state import AggregatingState, TtlAggregatingState
from idlestate.backends.keyed.context import KeyContext
from idlestate.backends.keyed.descriptors import StateDescriptor, StateKind
from idlestate.backends.keyed.list_state import ListState, TtlListState
from idlestate.backends.keyed.map_state import MapState
from idlestate.backends.keyed.reducing_state import ReducingState, TtlReducingState
from idlestate.backends.keyed.table import Table
from idlestate.backends.keyed.ttl import Ttl
from idlestate.backends.keyed.ttl_map_state import TtlMapState
from idlestate.backends.keyed.value_state import TtlValueState, ValueState

Kinds = ValueState | ListState | MapState | ReducingState | AggregatingState

_CLASSES: dict[StateKind, tuple[Any, Any]] = {
    StateKind.VALUE: (ValueState, TtlValueState),
    StateKind.LIST: (ListState, TtlListState),
    StateKind.MAP: (MapState, TtlMapState),
    StateKind.REDUCING: (ReducingState, TtlReducingState),
    StateKind.AGGREGATING: (AggregatingState, TtlAggregatingState),
}


def state_over(
    descriptor: StateDescriptor, table: Table, context: KeyContext, ttl: Ttl | None
) -> Kinds:
    """The state that a descriptor describes, over its table; with a time to live if one is."""
    plain, timed = _CLASSES[descriptor.kind]
    state: Kinds = (plain if ttl is None else timed)(descriptor, table, context, ttl)
    return state
