"""The times of a micro-batch, which decide whether its rows are late or rejected."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """Times of one micro-batch, int milliseconds."""

    batch_id: int
    watermark_ms: int
    """W(N): the highest event time of earlier batches less the delay, never below 0."""
    time_ms: int
    """When Spark planned the batch."""
