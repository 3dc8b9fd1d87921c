"""Preparing a checkpoint for an operator when its query starts, or refusing it."""

from dataclasses import replace

from idlestate.pipeline.batch_log import clear_half_planned, newest_batch, pinned_partitions
from idlestate.pipeline.errors import RefusedError
from idlestate.pipeline.folder import Folder
from idlestate.pipeline.layout import (
    Layout,
    PolicyJournal,
    layout_path,
    read_layout,
    write_layout,
)
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.policy_change import after_planned
from idlestate.pipeline.runs_place import check_runs, claim_runs
from idlestate.pipeline.shards import SHARDS_PER_PARTITION
from idlestate.pipeline.source_log import forget_unplanned
from idlestate.pipeline.spark_metadata import put_paths_right

_WAY_OUT = "restore it, or use a new checkpoint folder (and new sink folders)"


def prepare_checkpoint(
    checkpoint: Folder, spec: OperatorSpec, *, partitions: int, retain_batches: int, now_ms: int
) -> None:
    """Write the operator's layout and policy at a first start, check them at a later one.

    Args:
        checkpoint: the query's checkpoint.
        spec: the operator as the query declares it now.
        partitions: `spark.sql.shuffle.partitions`, which only a first start takes up.
        retain_batches: `spark.sql.streaming.minBatchesToRetain` now.
        now_ms: the driver's time; a new policy holds for batches planned from now on.

    Raises:
        RefusedError: the checkpoint is another query's, or the operator changed.
        StoreError: the place of its runs cannot be reached.
    """
    clear_half_planned(checkpoint)
    put_paths_right(checkpoint)
    if checkpoint.exists(layout_path(spec.uid)):
        kept = read_layout(checkpoint, spec.uid)
        shards = spec.shards or len(kept.shards)
        pinned = pinned_partitions(checkpoint) or kept.state_partitions
        asked = Layout.of(
            spec.table,
            spec.policy.time.value,
            pinned,
            shards,
            kept.retain_batches,
            spec.backend,
            spec.runs,
        )
        _refuse_differences(checkpoint, spec.uid, kept, asked)
        check_runs(checkpoint, spec.uid, kept)
        if retain_batches > kept.retain_batches:
            write_layout(checkpoint, spec.uid, replace(kept, retain_batches=retain_batches))
    else:
        check_owner(checkpoint, spec.uid)
        shards = spec.shards or SHARDS_PER_PARTITION * partitions
        layout = Layout.of(
            spec.table,
            spec.policy.time.value,
            partitions,
            shards,
            retain_batches,
            spec.backend,
            spec.runs,
        )
        if spec.runs is not None:
            layout = claim_runs(checkpoint, spec.uid, layout)
        write_layout(checkpoint, spec.uid, layout)
    forget_unplanned(checkpoint)
    # At once: no batch is being planned, and the one that may run again keeps its own.
    effective_ms = max(now_ms, after_planned(checkpoint))
    PolicyJournal(checkpoint, spec.uid).append(spec.policy, effective_ms)


def check_owner(checkpoint: Folder, uid: str) -> None:
    """Refuse a checkpoint in which a query without this operator has run.

    Raises:
        RefusedError: with the operators it holds.
    """
    planned = newest_batch(checkpoint, "offsets")
    if planned is not None and not checkpoint.exists(layout_path(uid)):
        held = ", ".join(checkpoint.names("idlestate")) or "none"
        raise RefusedError(
            f"checkpoint {checkpoint} belongs to another query: it has run batch {planned} "
            f"without an operator {uid!r} (its operators: {held}); use a separate checkpoint for "
            "this query, or restore the previous uid"
        )


def _refuse_differences(checkpoint: Folder, uid: str, kept: Layout, asked: Layout) -> None:
    was_now = [
        ("time", kept.time, asked.time),
        ("keys", _pairs(kept.keys), _pairs(asked.keys)),
        ("aggregates", _pairs(kept.aggregates), _pairs(asked.aggregates)),
        ("order", _pairs(kept.order), _pairs(asked.order)),
        *_retyped(kept, asked),
        ("backend", kept.backend, asked.backend),
        ("shards", str(len(kept.shards)), str(len(asked.shards))),
        ("runs", kept.runs, asked.runs),
    ]
    different = [
        f"{what} was {was or 'none'}, is now {now or 'none'}"
        for what, was, now in was_now
        if was != now
    ]
    if different:
        raise RefusedError(
            f"operator {uid!r} changed since checkpoint {checkpoint} was created: "
            f"{'; '.join(different)}; {_WAY_OUT}"
        )


def _retyped(kept: Layout, asked: Layout) -> list[tuple[str, str, str]]:
    """Columns read under both whose types differ: an average stays a double, its parts do not."""
    was, now = kept.column_types(), asked.column_types()
    return [(f"column {name}", was[name], now[name]) for name in was if name in now]


def _pairs(parts: list[list[str]]) -> str:
    return ", ".join(f"{name}: {' -> '.join(rest)}" for name, *rest in parts)
