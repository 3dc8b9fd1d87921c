"""TTL and idle-state retention for PySpark streaming jobs.

    from idlestate import configure, read_state, retain

The public modules are this one, `idlestate.state`, `idlestate.sidecar`, `idlestate.testing` and
`idlestate.errors`; all others may change without notice. Names are imported on first use, so that
modules that do not need Spark do not load it.
"""

from typing import TYPE_CHECKING

from idlestate._lazy import lazily

if TYPE_CHECKING:
    from idlestate.advisor.advice import Advice as Advice
    from idlestate.advisor.advise import advise as advise
    from idlestate.backends.shards.accumulator import Accumulator as Accumulator
    from idlestate.backends.shards.key_details import Explanation as Explanation
    from idlestate.backends.shards.key_details import KeyDetails as KeyDetails
    from idlestate.backends.shards.key_details import KeyState as KeyState
    from idlestate.backends.shards.key_rows_of_joins import SideRows as SideRows
    from idlestate.backends.shards.planned_removals import PolicyPlan as PolicyPlan
    from idlestate.functions.batch_context import BatchContext as BatchContext
    from idlestate.functions.batched_co_function import (
        BatchedCoProcessFunction as BatchedCoProcessFunction,
    )
    from idlestate.functions.batched_function import (
        BatchedProcessFunction as BatchedProcessFunction,
    )
    from idlestate.functions.co_function import KeyedCoProcessFunction as KeyedCoProcessFunction
    from idlestate.functions.count_triggered_function import (
        CountTriggeredFunction as CountTriggeredFunction,
    )
    from idlestate.functions.function import KeyedProcessFunction as KeyedProcessFunction
    from idlestate.functions.function_context import FunctionContext as FunctionContext
    from idlestate.metrics.state_metrics import StateMetrics as StateMetrics
    from idlestate.pipeline.co_process import co_process as co_process
    from idlestate.pipeline.deduplicate import deduplicate as deduplicate
    from idlestate.pipeline.explanations import explain as explain
    from idlestate.pipeline.join import join as join
    from idlestate.pipeline.join_asof import join_asof as join_asof
    from idlestate.pipeline.over import over as over
    from idlestate.pipeline.policy_change import reload as reload
    from idlestate.pipeline.policy_plans import plan as plan
    from idlestate.pipeline.process import process as process
    from idlestate.pipeline.read_state import read_state as read_state
    from idlestate.pipeline.retain import retain as retain
    from idlestate.pipeline.run_to_end import run_to_end as run_to_end
    from idlestate.pipeline.serve_metrics import ServedMetrics as ServedMetrics
    from idlestate.pipeline.serve_metrics import serve_metrics as serve_metrics
    from idlestate.pipeline.sinks.folder_sinks import FolderSinks as FolderSinks
    from idlestate.pipeline.spark.session_settings import configure as configure
    from idlestate.pipeline.sql import sql as sql
    from idlestate.retention.policy import Policy as Policy
    from idlestate.retention.policy import TimeDomain as TimeDomain
    from idlestate.retention.policy import UpdateType as UpdateType
    from idlestate.retention.policy_version import PolicyVersion as PolicyVersion
    from idlestate.retention.windows import Windows as Windows
    from idlestate.retention.windows import cumulate as cumulate
    from idlestate.retention.windows import hopping as hopping
    from idlestate.retention.windows import session as session
    from idlestate.retention.windows import tumbling as tumbling
    from idlestate.sidecar.client.client import SidecarClient as SidecarClient
    from idlestate.state.backend_factory import open_backend as open_backend
else:
    __getattr__ = lazily(
        __name__,
        {
            "idlestate.advisor.advice": ["Advice"],
            "idlestate.advisor.advise": ["advise"],
            "idlestate.backends.shards.accumulator": ["Accumulator"],
            "idlestate.functions.function_context": ["FunctionContext"],
            "idlestate.functions.co_function": ["KeyedCoProcessFunction"],
            "idlestate.functions.batch_context": ["BatchContext"],
            "idlestate.functions.batched_co_function": ["BatchedCoProcessFunction"],
            "idlestate.functions.batched_function": ["BatchedProcessFunction"],
            "idlestate.functions.count_triggered_function": ["CountTriggeredFunction"],
            "idlestate.functions.function": ["KeyedProcessFunction"],
            "idlestate.metrics.state_metrics": ["StateMetrics"],
            "idlestate.pipeline.co_process": ["co_process"],
            "idlestate.pipeline.deduplicate": ["deduplicate"],
            "idlestate.pipeline.process": ["process"],
            "idlestate.backends.shards.key_details": ["Explanation", "KeyDetails", "KeyState"],
            "idlestate.backends.shards.key_rows_of_joins": ["SideRows"],
            "idlestate.backends.shards.planned_removals": ["PolicyPlan"],
            "idlestate.pipeline.explanations": ["explain"],
            "idlestate.pipeline.join": ["join"],
            "idlestate.pipeline.join_asof": ["join_asof"],
            "idlestate.pipeline.over": ["over"],
            "idlestate.pipeline.policy_change": ["reload"],
            "idlestate.pipeline.policy_plans": ["plan"],
            "idlestate.pipeline.read_state": ["read_state"],
            "idlestate.pipeline.retain": ["retain"],
            "idlestate.pipeline.run_to_end": ["run_to_end"],
            "idlestate.pipeline.serve_metrics": ["ServedMetrics", "serve_metrics"],
            "idlestate.pipeline.spark.session_settings": ["configure"],
            "idlestate.pipeline.sinks.folder_sinks": ["FolderSinks"],
            "idlestate.pipeline.sql": ["sql"],
            "idlestate.retention.policy": ["Policy", "TimeDomain", "UpdateType"],
            "idlestate.retention.policy_version": ["PolicyVersion"],
            "idlestate.retention.windows": [
                "Windows",
                "cumulate",
                "hopping",
                "session",
                "tumbling",
            ],
            "idlestate.sidecar.client.client": ["SidecarClient"],
            "idlestate.state.backend_factory": ["open_backend"],
        },
    )

__all__ = [
    "Accumulator",
    "Advice",
    "BatchContext",
    "BatchedCoProcessFunction",
    "BatchedProcessFunction",
    "CountTriggeredFunction",
    "Explanation",
    "FolderSinks",
    "FunctionContext",
    "KeyDetails",
    "KeyState",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "Policy",
    "PolicyPlan",
    "PolicyVersion",
    "ServedMetrics",
    "SideRows",
    "SidecarClient",
    "StateMetrics",
    "TimeDomain",
    "UpdateType",
    "Windows",
    "advise",
    "co_process",
    "configure",
    "cumulate",
    "deduplicate",
    "explain",
    "hopping",
    "join",
    "join_asof",
    "open_backend",
    "over",
    "plan",
    "process",
    "read_state",
    "reload",
    "retain",
    "run_to_end",
    "serve_metrics",
    "session",
    "sql",
    "tumbling",
]
