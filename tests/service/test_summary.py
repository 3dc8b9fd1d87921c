"""The summary of a run: figures of the whole life, ratios where they mean something."""

from pathlib import Path

from idlestate.metrics.growth_log import GrowthLog, GrowthPoint
from idlestate.metrics.operator_statistics import OperatorStatistics
from idlestate.retention.policy import FOREVER_MS, Policy
from idlestate.service.summary import summary

FOREVER = Policy(idle_min_ms=1_800_000, idle_max_ms=2_700_000, remember_ms=FOREVER_MS)


def grown(path: Path, *keys_and_bytes: tuple[int, int]) -> GrowthLog:
    growth = GrowthLog(path / "growth.jsonl")
    for batch_id, (live, size) in enumerate(keys_and_bytes):
        growth.append(GrowthPoint(batch_id=batch_id, time_ms=0, live_keys=live, state_bytes=size))
    return growth


def told(
    figures: OperatorStatistics, growth: GrowthLog, policy: Policy = FOREVER
) -> dict[str, str]:
    lines = summary(figures, growth, policy, life_seconds=0.0, run_rows=0, run_seconds=0.0)
    return dict(lines)


def test_state_without_retention_goes_by_the_bytes_of_a_key_at_the_peak(tmp_path: Path) -> None:
    """At the end one key may have files to itself that were written for many."""
    growth = grown(tmp_path, (1_000, 100_000), (10, 60_000), (1, 52_000_000))
    figures = OperatorStatistics(operator="p", live_keys=1, state_bytes=52_000_000, keys_seen=2_000)
    assert told(figures, growth)["without retention"] == (
        "2,000 keys, 200.0 KB: 2.0 times the peak"
    )


def test_a_peak_of_unknown_size_is_passed_over(tmp_path: Path) -> None:
    growth = grown(tmp_path, (1_000, 0), (500, 50_000))
    figures = OperatorStatistics(operator="p", live_keys=500, state_bytes=50_000, keys_seen=2_000)
    assert told(figures, growth)["without retention"].startswith("2,000 keys, 200.0 KB")


def test_nothing_at_all_is_told_without_ratios(tmp_path: Path) -> None:
    assert told(OperatorStatistics(operator="p"), grown(tmp_path)) == {
        "keys ever seen": "0",
        "live now": "0 keys, 0 B",
        "peak": "0 keys",
        "expired": "0 lives",
        "without retention": "0 keys, 0 B",
        "returning keys": "0 (0.0% of 0 lives)",
        "remembered": "0 ended keys, 0 B",
        "rows": "0",
        "late rows": "0",
        "rejected rows": "0",
        "time in batches": "0.0 s, 0 rows/s",
        "this run": "0 rows, 0.0 s, 0 rows/s",
    }


def test_one_of_a_thing_is_no_plural(tmp_path: Path) -> None:
    figures = OperatorStatistics(
        operator="p",
        live_keys=1,
        keys_seen=1,
        keys_created=1,
        keys_expired={"idle": 1},
        remembered_keys=1,
    )
    lines = summary(
        figures, grown(tmp_path, (1, 8)), FOREVER, life_seconds=1.0, run_rows=1, run_seconds=1.0
    )
    said = dict(lines)
    assert said["live now"].startswith("1 key,")
    assert said["peak"] == "1 key"
    assert said["expired"] == "1 life (1 idle)"
    assert said["returning keys"].endswith("of 1 life)")
    assert said["remembered"].startswith("1 ended key,")
    assert said["this run"].startswith("1 row,")


def test_keys_ever_seen_are_never_fewer_than_were_live_at_once(tmp_path: Path) -> None:
    figures = OperatorStatistics(operator="p", live_keys=90, state_bytes=900, keys_seen=98)
    said = told(figures, grown(tmp_path, (100, 1_000)), Policy())
    assert said["keys ever seen"] == "about 100"
    assert said["without retention"] == "about 100 keys, 1.0 KB: 1.0 times the peak"
