"""The live keys that an idle window gives on a log of events, slot by slot."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from idlestate.metrics.history import SLOT_MS, Curve

DAYS_READ = {"globo_clicks": ("2017-10-01", "2017-10-17"), "irc_activity": ("2015-01", "2015-04")}
"""Whole days of full traffic."""


def live_curve(path: Path, key: str, hours: float) -> Curve:
    """Keys whose last event is less than `hours` ago, or all keys so far if that is infinite."""
    first, end = (np.datetime64(day, "ms") for day in DAYS_READ[path.stem])
    table = pq.read_table(path, columns=["event_time", key])
    times = table["event_time"].to_numpy().astype("datetime64[ms]")
    read = (times >= first) & (times < end)
    time_ms, keys = times[read].astype(np.int64), table[key].to_numpy()[read]
    order = np.lexsort((time_ms, keys))
    time_ms, keys = time_ms[order], keys[order]
    window_ms = np.inf if np.isinf(hours) else hours * 3_600_000
    gap_ms = np.where(np.diff(keys) == 0, np.diff(time_ms), np.inf)
    is_last = np.append(gap_ms, np.inf) >= window_ms
    is_first = np.insert(is_last[:-1], 0, True)
    begins, ends = np.sort(time_ms[is_first]), np.sort(time_ms[is_last] + window_ms)
    at = np.arange(time_ms.min() // SLOT_MS + 1, time_ms.max() // SLOT_MS) * SLOT_MS
    live = np.searchsorted(begins, at, "right") - np.searchsorted(ends, at, "right")
    return live.astype(np.float64)
