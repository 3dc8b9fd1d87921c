"""The growth log: idempotent, tolerant of a cut last line, bounded."""

import json
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlestate.metrics.growth_log import GrowthLog, GrowthLogError, GrowthPoint
from idlestate.metrics.operator_statistics import OperatorStatistics


def point(batch_id: int, live_keys: int = 0) -> GrowthPoint:
    return GrowthPoint(batch_id=batch_id, time_ms=batch_id * 60_000, live_keys=live_keys)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "growth.jsonl"


def filled(path: Path, *live_keys: int) -> GrowthLog:
    log = GrowthLog(path)
    for batch_id, live in enumerate(live_keys):
        assert log.append(point(batch_id, live))
    return log


def test_points_come_back_from_the_file(path: Path) -> None:
    filled(path, 5, 9, 7)
    log = GrowthLog(path)
    assert log.points() == (point(0, 5), point(1, 9), point(2, 7))
    assert log.last() == point(2, 7)
    assert log.peak() == point(1, 9)


def test_an_empty_log_has_no_file_no_last_and_no_peak(path: Path) -> None:
    log = GrowthLog(path)
    assert (log.points(), log.last(), log.peak()) == ((), None, None)
    assert not path.exists()


def test_the_peak_is_the_first_of_several(path: Path) -> None:
    assert filled(path, 1, 8, 8, 2).peak() == point(1, 8)


def test_a_replayed_batch_adds_nothing(path: Path) -> None:
    filled(path, 5, 9)
    before = path.read_bytes()
    log = GrowthLog(path)
    assert not log.append(point(1, 9))
    assert not log.append(point(0, 77))
    assert path.read_bytes() == before
    assert log.append(point(2, 6))


def test_batches_that_were_undone_are_dropped(path: Path) -> None:
    log = filled(path, 5, 9, 7)
    log.forget_after(2)
    assert len(log.points()) == 3
    log.forget_after(0)
    assert GrowthLog(path).points() == (point(0, 5),)
    assert log.append(point(1, 6))


def test_batches_may_be_skipped(path: Path) -> None:
    log = filled(path, 5)
    assert log.append(point(40, 3))
    assert [p.batch_id for p in GrowthLog(path).points()] == [0, 40]


def test_a_point_takes_its_figures_from_a_batch(path: Path) -> None:
    figures = OperatorStatistics(
        operator="clicks",
        batch_id=3,
        input_rows=100,
        live_keys=10,
        keys_seen=40,
        state_bytes=4_000,
        remembered_keys=5,
        remembered_bytes=80,
        keys_created=45,
        keys_expired={"idle": 30, "ttl": 5},
        returning_keys=5,
    )
    assert GrowthPoint.of(figures, 99) == GrowthPoint(
        batch_id=3,
        time_ms=99,
        live_keys=10,
        keys_seen=40,
        state_bytes=4_000,
        remembered_keys=5,
        remembered_bytes=80,
        input_rows=100,
        keys_created=45,
        keys_expired=35,
        returning_keys=5,
    )


@given(cut=st.integers(min_value=0))
def test_wherever_a_crash_cuts_the_file_the_log_goes_on(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "growth.jsonl"
    points = filled(path, 5, 9, 7).points()
    whole = path.read_bytes()
    path.write_bytes(whole[: cut % (len(whole) + 1)])
    log = GrowthLog(path)
    kept = len(log.points())
    assert log.points() == points[:kept]
    for again in points:
        log.append(again)
    assert path.read_bytes() == whole


def test_reading_changes_nothing(path: Path) -> None:
    filled(path, 5, 9)
    torn = path.read_bytes()[:-3]
    path.write_bytes(torn)
    assert GrowthLog(path).points() == (point(0, 5),)
    assert path.read_bytes() == torn


@pytest.mark.parametrize("last", [b"\0" * 40 + b"\n", b"[]\n", b'{"batch_id":2}\n', b"\xff\n"])
def test_a_last_line_that_makes_no_sense_is_dropped(path: Path, last: bytes) -> None:
    filled(path, 5, 9)
    whole = path.read_bytes()
    path.write_bytes(whole + last)
    log = GrowthLog(path)
    assert len(log.points()) == 2
    log.append(point(2, 1))
    assert GrowthLog(path).points() == (point(0, 5), point(1, 9), point(2, 1))
    assert path.read_bytes().startswith(whole)


@pytest.mark.parametrize("bad", [b"oops", b'{"batch_id": 1}', b'{"batch_id":1,"time_ms":1.5}'])
def test_a_damaged_line_elsewhere_is_named(path: Path, bad: bytes) -> None:
    filled(path, 5, 9, 7)
    lines = path.read_bytes().split(b"\n")
    lines[2] = bad
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(GrowthLogError, match=r"growth\.jsonl, line 3: not a growth point"):
        GrowthLog(path)


@pytest.mark.parametrize("content", [b"hello", b"hello\nworld\n", b'{"a": 1}\n', b"[1]\n"])
def test_another_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(GrowthLogError, match="is not a growth log of idlestate"):
        GrowthLog(path)
    assert path.read_bytes() == content


def test_a_newer_version_is_refused(path: Path) -> None:
    filled(path, 1)
    path.write_bytes(path.read_bytes().replace(b'"idlestate_growth": 1', b'"idlestate_growth": 2'))
    with pytest.raises(GrowthLogError, match="growth log version 2 is not supported"):
        GrowthLog(path)


def test_fields_of_a_later_version_are_passed_over_and_missing_ones_are_zero(path: Path) -> None:
    filled(path, 1)
    with path.open("a") as file:
        file.write(json.dumps({"batch_id": 1, "time_ms": 2, "mood": 3}) + "\n")
    assert GrowthLog(path).last() == GrowthPoint(batch_id=1, time_ms=2)


def test_a_file_that_was_removed_meanwhile_comes_back_whole(path: Path) -> None:
    log = filled(path, 5, 9)
    path.unlink()
    log.append(point(2, 7))
    assert GrowthLog(path).points() == (point(0, 5), point(1, 9), point(2, 7))


def test_a_long_log_gets_coarser_and_keeps_its_peak(path: Path) -> None:
    log = GrowthLog(path, max_points=100)
    for batch_id in range(10_000):
        log.append(point(batch_id, 9_999 if batch_id == 4_321 else batch_id % 1_000))
        assert len(log.points()) <= 100
    again = GrowthLog(path, max_points=100)
    assert again.points() == log.points()
    assert again.peak() == point(4_321, 9_999)
    assert again.last() == point(9_999, 999)
    ids = [p.batch_id for p in again.points()]
    assert ids == sorted(set(ids))
    assert ids[0] == 0
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_limit_too_small_to_keep_anything_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="at least 4, not 3"):
        GrowthLog(path, max_points=3)


@pytest.mark.parametrize("room", [0, 10])
def test_a_full_disk_leaves_the_log_as_it_was(path: Path, room: int) -> None:
    log = filled(path, 5, 9)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large|disk is full"):
            log.append(point(2, 7))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(log.points()) == 2
    assert GrowthLog(path).points() == log.points()
    assert log.append(point(2, 7))
    assert GrowthLog(path).points() == (point(0, 5), point(1, 9), point(2, 7))


def test_a_disk_full_from_the_start_leaves_nothing(path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            GrowthLog(path).append(point(0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(path.parent.iterdir()) == []
