"""Public names as mypy sees them, which `make test` runs on this file; nothing imports it.

Each `ignore` is for an error that has to be there, and mypy reports one without an error: that of
a name whose type is `Any`, which may be None.
"""

from typing import assert_type

import pyarrow as pa

import idlestate
import idlestate.errors
import idlestate.sidecar
import idlestate.state
import idlestate.testing

NAMES: list[None] = [
    idlestate.Accumulator,  # type: ignore[list-item]
    idlestate.Advice,  # type: ignore[list-item]
    idlestate.BatchContext,  # type: ignore[list-item]
    idlestate.BatchedCoProcessFunction,  # type: ignore[list-item]
    idlestate.BatchedProcessFunction,  # type: ignore[list-item]
    idlestate.CountTriggeredFunction,  # type: ignore[list-item]
    idlestate.Explanation,  # type: ignore[list-item]
    idlestate.FolderSinks,  # type: ignore[list-item]
    idlestate.FunctionContext,  # type: ignore[list-item]
    idlestate.KeyDetails,  # type: ignore[list-item]
    idlestate.KeyState,  # type: ignore[list-item]
    idlestate.KeyedCoProcessFunction,  # type: ignore[list-item]
    idlestate.KeyedProcessFunction,  # type: ignore[list-item]
    idlestate.Policy,  # type: ignore[list-item]
    idlestate.PolicyPlan,  # type: ignore[list-item]
    idlestate.PolicyVersion,  # type: ignore[list-item]
    idlestate.ServedMetrics,  # type: ignore[list-item]
    idlestate.SideRows,  # type: ignore[list-item]
    idlestate.SidecarClient,  # type: ignore[list-item]
    idlestate.StateMetrics,  # type: ignore[list-item]
    idlestate.TimeDomain,  # type: ignore[list-item]
    idlestate.UpdateType,  # type: ignore[list-item]
    idlestate.Windows,  # type: ignore[list-item]
    idlestate.advise,  # type: ignore[list-item]
    idlestate.co_process,  # type: ignore[list-item]
    idlestate.configure,  # type: ignore[list-item]
    idlestate.cumulate,  # type: ignore[list-item]
    idlestate.deduplicate,  # type: ignore[list-item]
    idlestate.explain,  # type: ignore[list-item]
    idlestate.hopping,  # type: ignore[list-item]
    idlestate.join,  # type: ignore[list-item]
    idlestate.join_asof,  # type: ignore[list-item]
    idlestate.open_backend,  # type: ignore[list-item]
    idlestate.over,  # type: ignore[list-item]
    idlestate.plan,  # type: ignore[list-item]
    idlestate.process,  # type: ignore[list-item]
    idlestate.read_state,  # type: ignore[list-item]
    idlestate.reload,  # type: ignore[list-item]
    idlestate.retain,  # type: ignore[list-item]
    idlestate.run_to_end,  # type: ignore[list-item]
    idlestate.serve_metrics,  # type: ignore[list-item]
    idlestate.session,  # type: ignore[list-item]
    idlestate.sql,  # type: ignore[list-item]
    idlestate.tumbling,  # type: ignore[list-item]
    idlestate.errors.DamagedStateError,  # type: ignore[list-item]
    idlestate.errors.FencedError,  # type: ignore[list-item]
    idlestate.errors.IdlestateError,  # type: ignore[list-item]
    idlestate.errors.RefusedError,  # type: ignore[list-item]
    idlestate.errors.StoreError,  # type: ignore[list-item]
    idlestate.errors.UnavailableError,  # type: ignore[list-item]
    idlestate.sidecar.Address,  # type: ignore[list-item]
    idlestate.sidecar.ExpiredSource,  # type: ignore[list-item]
    idlestate.sidecar.SidecarClient,  # type: ignore[list-item]
    idlestate.sidecar.WriteResult,  # type: ignore[list-item]
    idlestate.state.AggregateFunction,  # type: ignore[list-item]
    idlestate.state.AggregatingState,  # type: ignore[list-item]
    idlestate.state.AggregatingStateDescriptor,  # type: ignore[list-item]
    idlestate.state.BroadcastState,  # type: ignore[list-item]
    idlestate.state.CompactionCleanup,  # type: ignore[list-item]
    idlestate.state.CountTrigger,  # type: ignore[list-item]
    idlestate.state.IdleBatches,  # type: ignore[list-item]
    idlestate.state.IdleRetention,  # type: ignore[list-item]
    idlestate.state.IncrementalCleanup,  # type: ignore[list-item]
    idlestate.state.KeyBatch,  # type: ignore[list-item]
    idlestate.state.KeyGroupRange,  # type: ignore[list-item]
    idlestate.state.KeyedStateBackend,  # type: ignore[list-item]
    idlestate.state.ListState,  # type: ignore[list-item]
    idlestate.state.ListStateDescriptor,  # type: ignore[list-item]
    idlestate.state.MapState,  # type: ignore[list-item]
    idlestate.state.MapStateDescriptor,  # type: ignore[list-item]
    idlestate.state.OperatorListState,  # type: ignore[list-item]
    idlestate.state.OperatorStateStore,  # type: ignore[list-item]
    idlestate.state.ReducingState,  # type: ignore[list-item]
    idlestate.state.ReducingStateDescriptor,  # type: ignore[list-item]
    idlestate.state.Snapshot,  # type: ignore[list-item]
    idlestate.state.SnapshotMode,  # type: ignore[list-item]
    idlestate.state.StateTtlConfig,  # type: ignore[list-item]
    idlestate.state.StateVisibility,  # type: ignore[list-item]
    idlestate.state.SweepReport,  # type: ignore[list-item]
    idlestate.state.TimeDomain,  # type: ignore[list-item]
    idlestate.state.Timer,  # type: ignore[list-item]
    idlestate.state.TimerBatch,  # type: ignore[list-item]
    idlestate.state.TimerService,  # type: ignore[list-item]
    idlestate.state.TriggerResult,  # type: ignore[list-item]
    idlestate.state.UpdateType,  # type: ignore[list-item]
    idlestate.state.Usage,  # type: ignore[list-item]
    idlestate.state.ValueState,  # type: ignore[list-item]
    idlestate.state.ValueStateDescriptor,  # type: ignore[list-item]
    idlestate.state.key_group_range,  # type: ignore[list-item]
    idlestate.state.open_backend,  # type: ignore[list-item]
    idlestate.state.ttls_of_states,  # type: ignore[list-item]
    idlestate.testing.CoFunctionHarness,  # type: ignore[list-item]
    idlestate.testing.FakeClock,  # type: ignore[list-item]
    idlestate.testing.FunctionHarness,  # type: ignore[list-item]
    idlestate.testing.RetainHarness,  # type: ignore[list-item]
    idlestate.testing.check_cuts,  # type: ignore[list-item]
]


def results() -> None:
    """What calls return whose types depend on their arguments, and two mistakes."""
    kind = pa.int64()
    _ = idlestate.retian  # type: ignore[attr-defined]
    idlestate.Policy(idle_min=30)  # type: ignore[arg-type]
    with idlestate.open_backend("heap") as backend:
        assert_type(backend, idlestate.state.KeyedStateBackend)
        value = backend.get_state(idlestate.state.ValueStateDescriptor(name="v", value_type=kind))
        assert_type(value, idlestate.state.ValueState)
        items = backend.get_state(idlestate.state.ListStateDescriptor(name="l", value_type=kind))
        assert_type(items, idlestate.state.ListState)
