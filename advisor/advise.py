"""The advisor's main function: a log in, advice out."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from idlestate.advisor.advice import Advice, Half
from idlestate.advisor.batches import BatchesLike, JobBatches
from idlestate.advisor.event_columns import Reading, check_columns
from idlestate.advisor.event_log import EventLog, Leftovers
from idlestate.advisor.event_log_in_memory import memory_log
from idlestate.advisor.files import read_events
from idlestate.advisor.knee import find_knee
from idlestate.advisor.suggested_policy import suggest_policy
from idlestate.advisor.targets import key_budget as budget_of
from idlestate.advisor.targets import returning_targets
from idlestate.advisor.window_ladder import Window, WindowLike, span_ms, windows_of
from idlestate.advisor.window_outcome import WindowOutcome, figures, half_outcome
from idlestate.errors import RefusedError
from idlestate.retention.durations import Duration
from idlestate.timers.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATE_BYTES = 48
"""Bytes per live key besides the key in a run: hash, three times, index, and one aggregate."""
MOST_BYTES_PER_KEY = 10**12
NULL_KEYS = ("keep", "reject")
MAX_AHEAD_MS = 3_600_000
"""Events further ahead of the clock are rejected, as a job does by default."""


def advise(
    events: "pa.Table | pd.DataFrame | DataFrame | str | Path",
    *,
    key: str | Sequence[str],
    event_time: str,
    windows: Sequence[WindowLike] | None = None,
    key_budget: int | None = None,
    batches: BatchesLike | None = None,
    delay: Duration = "0s",
    bytes_per_key: float | None = None,
    null_key: str = "keep",
) -> Advice:
    """Compare idle windows on a log of events, and suggest a policy.

    Args:
        events: an Arrow table, a pandas DataFrame, a batch DataFrame of Spark (for logs larger than
            memory), or a file or folder of parquet, CSV or JSON lines.
        key: the key column or columns.
        event_time: the column of event times: timestamps, dates, or ISO 8601 strings. Times without
            a zone are UTC. Rows without a time, with one before 1970-01-02, or with one more than
            an hour ahead of the clock are rejected.
        windows: idle windows to try: durations such as `30m`, or min and max such as `30m/45m` or
            (`30m`, `45m`). Default: a series of common windows up to the log's span.
        key_budget: find the longest window that keeps at most this many keys.
        batches: also count the keys that a job holds after each batch: rows per batch in the order
            of the log, the rows of each batch as a list, or event time per batch (`5m`). With rows
            per batch, rows that such a job drops as late are ignored.
        delay: how late an event may be, as in `retain`.
        bytes_per_key: bytes of state per live key, as `idlestate run` reports them. Default: an
            estimate from the key columns, with one aggregate.
        null_key: `keep`: null is a key like any other; `reject`: such rows are ignored.

    Raises:
        RefusedError: a column is missing or of an unusable type, an argument is not valid, or no
            row has a usable event time; the text says what to change.
    """
    if not isinstance(key, Iterable):
        raise RefusedError(f"key {key!r} is not valid; pass a column or a list of them")
    reading = Reading(
        key=(key,) if isinstance(key, str) else tuple(key),
        event_time=event_time,
        batches=None if batches is None else JobBatches.of(batches),
        delay_ms=span_ms("delay", delay),
        rejects_null_keys=_rejects(null_key),
        latest_ms=SystemClock().now_ms() + MAX_AHEAD_MS,
    )
    if not reading.key:
        raise RefusedError("key is empty: pass at least one column")
    twice = [name for name in dict.fromkeys(reading.key) if reading.key.count(name) > 1]
    if twice:
        raise RefusedError(f"key column {twice[0]!r} is listed twice; pass it once")
    if key_budget is not None and (type(key_budget) is not int or key_budget < 1):
        raise RefusedError(f"key_budget {key_budget!r} is not valid; pass a whole number above 0")
    if bytes_per_key is not None and not 0 < bytes_per_key <= MOST_BYTES_PER_KEY:
        raise RefusedError(
            f"bytes_per_key {bytes_per_key!r} is not valid; pass a number above 0, at most "
            f"{MOST_BYTES_PER_KEY:,}"
        )
    log, leftovers = _open(events, reading)
    with closing(log):
        if bytes_per_key is None:
            bytes_per_key = leftovers.key_bytes / log.extent.keys + STATE_BYTES
        chosen = windows_of(windows, log.extent.span_ms)
        return _advice(log, leftovers, reading, chosen, key_budget, bytes_per_key)


def _open(events: Any, reading: Reading) -> tuple[EventLog, Leftovers]:
    if isinstance(events, str | Path):
        table = read_events(Path(events), reading)
        try:
            return memory_log(table, reading)
        except RefusedError as error:
            raise RefusedError(f"{events}: {error}") from error
    if isinstance(events, pd.DataFrame):
        check_columns([str(name) for name in events.columns], reading)
        events = pa.Table.from_pandas(events[list(reading.columns)], preserve_index=False)
    elif hasattr(events, "mapInArrow"):
        # Imported late: PySpark takes a second.
        from idlestate.advisor.event_log_on_spark import spark_log  # noqa: PLC0415

        return spark_log(events, reading)
    if not isinstance(events, pa.Table):
        raise RefusedError(
            f"events is a {type(events).__name__}; pass an Arrow table, a pandas or Spark "
            "DataFrame, or the path of a file or folder"
        )
    return memory_log(events, reading)


def _advice(
    log: EventLog,
    leftovers: Leftovers,
    reading: Reading,
    windows: Sequence[Window],
    keys: int | None,
    bytes_per_key: float,
) -> Advice:
    delay_ms = reading.delay_ms
    found = figures(log, windows, bytes_per_key, delay_ms)
    knee, targets = find_knee(log), returning_targets(log)
    budget = None
    if keys is not None:

        def most_keys(asked: Sequence[Window]) -> list[int]:
            return [each.most_keys for each in figures(log, asked, bytes_per_key, delay_ms)]

        budget = budget_of(keys, log, most_keys, found)
    policy = suggest_policy(reading.key, knee, targets, budget, log.extent.span_ms)
    bounds: list[WindowOutcome] = []
    if policy is not None:
        ends = [Window.single(each) for each in (policy.idle_min_ms, policy.idle_max_ms)]
        bounds = figures(log, ends, bytes_per_key, delay_ms)
    return Advice(
        key=reading.key,
        event_time=reading.event_time,
        extent=log.extent,
        rejected_rows=leftovers.rejected_rows,
        late_rows=leftovers.late_rows,
        bytes_per_key=bytes_per_key,
        windows=tuple(found),
        knee=knee,
        targets=targets,
        key_budget=budget,
        policy=policy,
        policy_bounds=tuple(bounds),
        halves=_halves(log, windows),
    )


def _halves(log: EventLog, windows: Sequence[Window]) -> tuple[Half, ...]:
    first_ms, middle_ms, last_ms = log.extent.first_ms, log.middle_ms(), log.extent.last_ms
    if middle_ms <= first_ms:
        return ()
    halves = (log.between(first_ms, middle_ms), log.between(middle_ms, last_ms + 1))
    return tuple(
        Half(
            extent=half.extent,
            windows=half_outcome(half, windows),
            knee=find_knee(half),
            targets=returning_targets(half),
        )
        for half in halves
    )


def _rejects(null_key: str) -> bool:
    if null_key not in NULL_KEYS:
        raise RefusedError(f"null_key {null_key!r} is not valid; pass 'keep' or 'reject'")
    return null_key == "reject"
