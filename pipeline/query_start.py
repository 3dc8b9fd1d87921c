"""Prepares a checkpoint for an operator when its query starts, or refuses it."""

from dataclasses import replace

from idlestate.backends.checkpoint.operator_files import valid
from idlestate.backends.checkpoint.operator_layout import (
    OperatorLayout,
    held_operators,
    layout_path,
    read_layout,
    write_layout,
)
from idlestate.backends.checkpoint.policy_journal import PolicyJournal
from idlestate.backends.checkpoint.runs_folder import runs_of
from idlestate.backends.checkpoint.runs_owner import check_runs, claim_runs
from idlestate.backends.checkpoint.shard_partitions import SHARDS_PER_PARTITION
from idlestate.backends.checkpoint.source_log import forget_unplanned
from idlestate.backends.files.folder import Folder
from idlestate.backends.files.record_copies import remove_copies
from idlestate.backends.files.spark_logs import clear_half_planned, newest_batch
from idlestate.backends.shards.definition import Definition
from idlestate.backends.shards.definition_change import Takeover, compare_definitions, refused
from idlestate.errors import RefusedError
from idlestate.pipeline.checkpoint.spark_metadata import put_paths_right
from idlestate.pipeline.operator_spec import OperatorSpec
from idlestate.pipeline.policy_change import after_planned
from idlestate.pipeline.policy_plans import refuse_shrink

WAY_OUT = "restore the job, or use a new checkpoint folder (and new sink folders)"
"""If a run cannot continue from the state of a checkpoint."""


def prepare_checkpoint(
    checkpoint: Folder, spec: OperatorSpec, *, partitions: int, retain_batches: int, now_ms: int
) -> None:
    """At a first start, write the operator's layout and policy. At a later one, compare them with
    the query's operator, and write a changed definition.

    Args:
        checkpoint: the query's checkpoint.
        spec: the operator as the query declares it now.
        partitions: `spark.sql.shuffle.partitions`, used by a first start only.
        retain_batches: the current `spark.sql.streaming.minBatchesToRetain`.
        now_ms: the driver's time; a new policy applies to batches planned from now on.

    Raises:
        RefusedError: the checkpoint belongs to another query, its state cannot be taken over, or a
            changed policy would remove too many keys at once.
        StoreError: the place of its runs cannot be reached.
    """
    clear_half_planned(checkpoint)
    put_paths_right(checkpoint)
    if checkpoint.exists(layout_path(spec.uid)):
        found = takeover(checkpoint, spec)
        if found.refusals:
            raise RefusedError(
                f"operator {spec.uid!r} changed since checkpoint {checkpoint} was created: "
                f"{'; '.join(found.refusals)}; {WAY_OUT}"
            )
        refuse_shrink(
            checkpoint, spec.uid, spec.policy, now_ms, spec.sidecar, right=spec.right_policy
        )
        kept = read_layout(checkpoint, spec.uid)
        check_runs(checkpoint, spec.uid, kept)
        # The batch that runs next, even if it was planned before and runs again.
        layout = kept.defined(_committed(checkpoint) + 1, found.definition)
        layout = replace(layout, retain_batches=max(retain_batches, kept.retain_batches))
        if layout != kept:
            write_layout(checkpoint, spec.uid, layout)
        if layout.backend == "spark":
            runs = runs_of(checkpoint, spec.uid, layout)
            remove_copies(runs, layout.shards, after=_committed(checkpoint))
    else:
        check_owner(checkpoint, spec.uid)
        shards = spec.shards or SHARDS_PER_PARTITION * partitions
        layout = OperatorLayout.of(
            spec.table,
            spec.policy.time,
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
    # At once: no batch is being planned, and one that may run again keeps its own version.
    effective_ms = max(now_ms, after_planned(checkpoint))
    PolicyJournal(checkpoint, spec.uid).append(spec.policy, effective_ms, spec.right_policy)


def takeover(checkpoint: Folder, spec: OperatorSpec) -> Takeover:
    """What would happen to an operator's state if the query started with this spec.

    The state is that of the newest committed batch, so the spec is compared with the definition of
    that batch.

    Raises:
        RefusedError: the checkpoint has no such operator.
    """
    kept = read_layout(checkpoint, spec.uid)
    asked = Definition.of(spec.table, spec.policy.time, spec.renamed)
    with valid(checkpoint, layout_path(spec.uid), "definitions"):
        found = compare_definitions(kept.at(_committed(checkpoint)), asked)
    shards = len(kept.shards)
    places = (
        ("backend", kept.backend, spec.backend),
        ("shards", shards, spec.shards or shards),
        ("runs", kept.runs, spec.runs),
    )
    fixed = [refused(what, was, now) for what, was, now in places if was != now]
    return replace(found, changes=(*fixed, *found.changes))


def check_owner(checkpoint: Folder, uid: str) -> None:
    """Refuse a checkpoint in which a query without this operator has run.

    Raises:
        RefusedError: with the operators it holds.
    """
    planned = newest_batch(checkpoint, "offsets")
    if planned is not None and not checkpoint.exists(layout_path(uid)):
        held = ", ".join(held_operators(checkpoint)) or "none"
        raise RefusedError(
            f"checkpoint {checkpoint} belongs to another query: it has run batch {planned} "
            f"without an operator {uid!r} (its operators: {held}); use a separate checkpoint for "
            "this query, or restore the previous uid"
        )


def _committed(checkpoint: Folder) -> int:
    """The newest committed batch; -1 before the first."""
    newest = newest_batch(checkpoint, "commits")
    return -1 if newest is None else newest
