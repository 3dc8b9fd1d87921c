"""Keyed state, operator state and snapshots, with Flink's semantics, in any Python program."""

from typing import TYPE_CHECKING

from idlestate._lazy import lazily

if TYPE_CHECKING:
    from idlestate.retention.policy import TimeDomain as TimeDomain
    from idlestate.retention.policy import UpdateType as UpdateType
    from idlestate.retention.state_ttls import ttls_of_states as ttls_of_states
    from idlestate.retention.ttl_config import CompactionCleanup as CompactionCleanup
    from idlestate.retention.ttl_config import IncrementalCleanup as IncrementalCleanup
    from idlestate.retention.ttl_config import StateTtlConfig as StateTtlConfig
    from idlestate.retention.ttl_config import StateVisibility as StateVisibility
    from idlestate.state.aggregating_state import AggregatingState as AggregatingState
    from idlestate.state.backend import KeyedStateBackend as KeyedStateBackend
    from idlestate.state.backend_factory import open_backend as open_backend
    from idlestate.state.count_trigger import CountTrigger as CountTrigger
    from idlestate.state.count_trigger import TriggerResult as TriggerResult
    from idlestate.state.descriptors import AggregateFunction as AggregateFunction
    from idlestate.state.descriptors import AggregatingStateDescriptor as AggregatingStateDescriptor
    from idlestate.state.descriptors import ListStateDescriptor as ListStateDescriptor
    from idlestate.state.descriptors import MapStateDescriptor as MapStateDescriptor
    from idlestate.state.descriptors import ReducingStateDescriptor as ReducingStateDescriptor
    from idlestate.state.descriptors import ValueStateDescriptor as ValueStateDescriptor
    from idlestate.state.idle import IdleRetention as IdleRetention
    from idlestate.state.idle_batches import IdleBatches as IdleBatches
    from idlestate.state.key_batch import KeyBatch as KeyBatch
    from idlestate.state.key_groups import KeyGroupRange as KeyGroupRange
    from idlestate.state.key_groups import key_group_range as key_group_range
    from idlestate.state.list_state import ListState as ListState
    from idlestate.state.map_state import MapState as MapState
    from idlestate.state.operator_state import BroadcastState as BroadcastState
    from idlestate.state.operator_state import OperatorListState as OperatorListState
    from idlestate.state.operator_state import OperatorStateStore as OperatorStateStore
    from idlestate.state.reducing_state import ReducingState as ReducingState
    from idlestate.state.snapshot import Snapshot as Snapshot
    from idlestate.state.snapshot import SnapshotMode as SnapshotMode
    from idlestate.state.sweep import SweepReport as SweepReport
    from idlestate.state.usage import Usage as Usage
    from idlestate.state.value_state import ValueState as ValueState
    from idlestate.timers.timer import Timer as Timer
    from idlestate.timers.timer import TimerBatch as TimerBatch
    from idlestate.timers.timer_service import TimerService as TimerService
else:
    __getattr__ = lazily(
        __name__,
        {
            "idlestate.retention.policy": ["TimeDomain", "UpdateType"],
            "idlestate.retention.state_ttls": ["ttls_of_states"],
            "idlestate.retention.ttl_config": [
                "CompactionCleanup",
                "IncrementalCleanup",
                "StateTtlConfig",
                "StateVisibility",
            ],
            "idlestate.state.aggregating_state": ["AggregatingState"],
            "idlestate.state.backend": ["KeyedStateBackend"],
            "idlestate.state.count_trigger": ["CountTrigger", "TriggerResult"],
            "idlestate.state.descriptors": [
                "AggregateFunction",
                "AggregatingStateDescriptor",
                "ListStateDescriptor",
                "MapStateDescriptor",
                "ReducingStateDescriptor",
                "ValueStateDescriptor",
            ],
            "idlestate.state.idle": ["IdleRetention"],
            "idlestate.state.idle_batches": ["IdleBatches"],
            "idlestate.state.key_batch": ["KeyBatch"],
            "idlestate.state.key_groups": ["KeyGroupRange", "key_group_range"],
            "idlestate.state.backend_factory": ["open_backend"],
            "idlestate.state.operator_state": [
                "BroadcastState",
                "OperatorListState",
                "OperatorStateStore",
            ],
            "idlestate.state.list_state": ["ListState"],
            "idlestate.state.map_state": ["MapState"],
            "idlestate.state.reducing_state": ["ReducingState"],
            "idlestate.state.snapshot": ["Snapshot", "SnapshotMode"],
            "idlestate.state.sweep": ["SweepReport"],
            "idlestate.state.usage": ["Usage"],
            "idlestate.state.value_state": ["ValueState"],
            "idlestate.timers.timer_service": ["TimerService"],
            "idlestate.timers.timer": ["Timer", "TimerBatch"],
        },
    )

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BroadcastState",
    "CompactionCleanup",
    "CountTrigger",
    "IdleBatches",
    "IdleRetention",
    "IncrementalCleanup",
    "KeyBatch",
    "KeyGroupRange",
    "KeyedStateBackend",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "OperatorListState",
    "OperatorStateStore",
    "ReducingState",
    "ReducingStateDescriptor",
    "Snapshot",
    "SnapshotMode",
    "StateTtlConfig",
    "StateVisibility",
    "SweepReport",
    "TimeDomain",
    "Timer",
    "TimerBatch",
    "TimerService",
    "TriggerResult",
    "UpdateType",
    "Usage",
    "ValueState",
    "ValueStateDescriptor",
    "key_group_range",
    "open_backend",
    "ttls_of_states",
]
