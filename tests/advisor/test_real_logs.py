"""Real logs: the figures that a plain loop over each of them gave."""

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from idlestate import advise

WINDOWS = ("30m", "6h", "24h", "7d")


class RealLog(NamedTuple):
    """A log, and under each of `WINDOWS` the most keys live at once and the returning keys."""

    file: str
    key: tuple[str, ...]
    keys: int
    peak: tuple[int, ...]
    returning: tuple[int, ...]
    null_key: str = "keep"


LOGS = {
    "wiki user": RealLog(
        "wikipedia_edits.json.gz", ("user",), 10_531, (566, 4_270), (5_566, 1_042)
    ),
    "wiki page": RealLog(
        "wikipedia_edits.json.gz", ("wiki", "page"), 35_278, (1_189, 11_268), (1_986, 410)
    ),
    "globo session": RealLog(
        "globo_clicks.parquet",
        ("session_id",),
        1_048_594,
        (5_878, 45_438, 116_785, 503_748),
        (66_613, 4_148, 775, 12),
    ),
    "globo user": RealLog(
        "globo_clicks.parquet",
        ("user_id",),
        322_897,
        (5_868, 41_473, 93_005, 227_779),
        (790_138, 612_235, 396_915, 37_282),
    ),
    "globo article": RealLog(
        "globo_clicks.parquet",
        ("article_id",),
        46_033,
        (903, 3_984, 7_236, 24_559),
        (166_560, 45_754, 18_797, 2_192),
    ),
    "irc channel and user": RealLog(
        "irc_activity.parquet",
        ("channel", "user_id"),
        42_126,
        (347, 379, 448, 758),
        (1_765_585, 868_189, 368_868, 108_405),
    ),
    "retail customer": RealLog(
        "online_retail.parquet",
        ("customer_id",),
        4_372,
        (22, 108, 171, 628),
        (15_607, 14_960, 14_600, 11_471),
        "reject",
    ),
}

LARGE = {"globo user", "irc channel and user"}
"""Whose kinds of file and key occur in smaller logs too."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name in LARGE)) for name in LOGS],
)
def test_peak_and_returning_keys_of_real_logs(name: str, data_dir: Path) -> None:
    log = LOGS[name]
    advice = advise(
        data_dir / log.file,
        key=log.key,
        event_time="event_time",
        windows=WINDOWS[: len(log.peak)],
        null_key=log.null_key,
    )
    assert advice.extent.keys == log.keys
    assert tuple(each.peak_keys for each in advice.windows) == log.peak
    assert tuple(each.returning for each in advice.windows) == log.returning
    assert all(each.created == log.keys + each.returning for each in advice.windows)


@pytest.mark.parametrize(
    ("name", "minutes"), [("globo session", 44), ("globo user", None), ("retail customer", None)]
)
def test_knee_of_real_logs(name: str, minutes: int | None, data_dir: Path) -> None:
    log = LOGS[name]
    advice = advise(
        data_dir / log.file,
        key=log.key,
        event_time="event_time",
        windows=["30m"],
        null_key=log.null_key,
    )
    if minutes is None:
        assert advice.knee.window_ms is None
        return
    assert advice.knee.window_ms is not None
    assert round(advice.knee.window_ms / 60_000) == minutes
    assert advice.policy is not None
    assert advice.policy.idle_min_ms == minutes * 60_000


def test_keys_held_after_each_of_twelve_batches(data_dir: Path) -> None:
    with gzip.open(data_dir / "wikipedia_edits.json.gz", "rt", encoding="utf-8") as file:
        events = pa.Table.from_pylist([json.loads(line) for line in file])
    advice = advise(
        events, key="user", event_time="event_time", windows=["30m", "30m/45m"], batches=10_000
    )
    single, pair = advice.windows
    assert len(single.held_keys) == len(pair.held_keys) == 4
    assert single.peak_keys < single.most_keys == max(single.held_keys)
    assert all(a <= b for a, b in zip(single.held_keys, pair.held_keys, strict=True))
