"""What is asked about a log does not grow with it, so its cost grows no faster than the log."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from idlestate import advise
from idlestate.advisor.partial_counts import LogPart


def sessions(rows: int) -> pa.Table:
    """As many events per key and per second, whatever the number of rows."""
    chance = np.random.default_rng(3)
    session = chance.integers(0, rows // 4, rows)
    t_ms = session * 1000 + chance.exponential(200_000, rows).astype(np.int64)
    times = pa.array(1_700_000_000_000 + t_ms, pa.timestamp("ms", "UTC"))
    return pa.table({"session": session, "at": times})


def asked(monkeypatch: pytest.MonkeyPatch, rows: int) -> list[int]:
    """How much each question asks: windows of tallies, times of live keys."""
    sizes: list[int] = []
    live, tallies = LogPart.live, LogPart.tallies

    def counted_live(part: LogPart, questions: Sequence[Any]) -> Any:
        sizes.extend(stretches.size for _, stretches in questions)
        return live(part, questions)

    def counted_tallies(part: LogPart, windows: Sequence[Any], *times: int) -> Any:
        sizes.append(len(windows))
        return tallies(part, windows, *times)

    with monkeypatch.context() as patched:
        patched.setattr(LogPart, "live", counted_live)
        patched.setattr(LogPart, "tallies", counted_tallies)
        windows = ["1m", "2m", "5m", "10m", "20m"]
        advise(
            sessions(rows), key="session", event_time="at", windows=windows, key_budget=rows // 20
        )
    return sizes


def test_questions_do_not_grow_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = asked(monkeypatch, 5_000), asked(monkeypatch, 80_000)
    assert max(many) <= 3 * 2**16
    # The log is 16 times as long.
    assert len(many) < 4 * len(few)
    assert sum(many) < 4 * sum(few)
