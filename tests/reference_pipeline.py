"""The reference's pipeline: batches in, one sequence of records and sweeps out.

Which rows are rejected or late, where the watermark stands, in which order a batch's records
count, and when ended lives are closed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.reference import FOREVER_MS, Record, Reference, Rule
from tests.reference_values import rank

DAY_MS = 86_400_000


def make_sequence(batch: Iterable[Record]) -> list[Record]:
    """One batch's records as a pipeline orders them.

    By event time, then order columns, nulls first; equal ones are one step, its reads last. Only
    the order within a key matters.
    """
    return sorted(
        batch, key=lambda record: (record.t_ms, [rank(v) for v in record.order], record.read)
    )


@dataclass
class Played:
    """What came of a pipeline's batches."""

    reference: Reference
    input_rows: int = 0
    late: list[Record] = field(default_factory=list)
    rejected: list[tuple[Record, str]] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)


def play(
    batches: Sequence[Sequence[Record]],
    rule: Rule,
    aggregates: Mapping[str, str],
    *,
    delay_ms: int = 0,
    batch_times_ms: Sequence[int] | None = None,
    processing_time: bool = False,
    min_event_time_ms: int = DAY_MS,
    max_ahead_ms: int = 3_600_000,
    final_sweep: bool = True,
    rules: Mapping[int, Rule] | None = None,
    reference: Reference | None = None,
) -> Played:
    """Run batches as a pipeline would.

    Args:
        batches: the records of batch 0, 1, ...
        rule: the policy at the start.
        aggregates: result name to aggregate, as users write them.
        delay_ms: how long late events are waited for.
        batch_times_ms: the journaled time of each batch; without it nothing is too far ahead.
        processing_time: whether records count at the batch's time instead of their own.
        min_event_time_ms: rows before this are rejected.
        max_ahead_ms: rows further ahead of the batch's time are rejected.
        final_sweep: whether the input has ended (event time only).
        rules: policies that take effect with a batch id.
        reference: that of another operator than `retain`.
    """
    reference = Reference(rule, aggregates) if reference is None else reference
    played = Played(reference)
    highest: int | None = None
    now_ms = watermark = 0
    for batch_id, batch in enumerate(batches):
        if rules and batch_id in rules:
            reference.change_rule(rules[batch_id])
        reference.batch_id = batch_id
        played.input_rows += len(batch)
        if processing_time:
            assert batch_times_ms is not None
            now_ms = max(now_ms, batch_times_ms[batch_id])
            accepted = [replace(record, t_ms=now_ms) for record in batch]
            sweep_at = now_ms
        else:
            ahead = batch_times_ms[batch_id] + max_ahead_ms if batch_times_ms else FOREVER_MS
            accepted, on_time = [], []
            for record in batch:
                reason = why_rejected(record, min_event_time_ms, ahead)
                if reason:
                    played.rejected.append((record, reason))
                else:
                    on_time.append(record)
            if highest is not None:
                watermark = max(watermark, highest - delay_ms - 1)
            for record in on_time:
                assert record.t_ms is not None
                highest = record.t_ms if highest is None else max(highest, record.t_ms)
                (played.late if record.t_ms <= watermark else accepted).append(record)
            sweep_at = watermark
        played.watermarks.append(sweep_at)
        for record in make_sequence(accepted):
            reference.take(record)
        reference.sweep(sweep_at)
    if final_sweep and not processing_time and highest is not None:
        reference.sweep(max(watermark, highest - delay_ms - 1))
    return played


def why_rejected(record: Record, min_event_time_ms: int, latest_ms: int) -> str | None:
    """Why a row never reaches the watermark, None when it does."""
    if record.t_ms is None:
        return "null_time"
    if record.t_ms < min_event_time_ms:
        return "too_old"
    return "too_far_ahead" if record.t_ms > latest_ms else None
