"""The generated click stream: its size, its shape, its flaws, its bytes."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from idlestate.service import click_stream
from idlestate.service.cli import main
from idlestate.service.click_folder import DONE, ClickFolder
from idlestate.service.click_stream import DAY_MS, SCHEMA, START_MS, generate_clicks
from tests.service.command_line import Said, assert_good, assert_refused

# Seconds between two clicks of one session in the public Globo.com data.
GLOBO_GAPS = {0.5: 30.0, 0.9: 464.0, 0.99: 6596.0}
DELAY_MS = 600_000
SMALL = 20_000


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> ClickFolder:
    """The stream that `make run` reads."""
    return generate_clicks(tmp_path_factory.mktemp("day") / "clicks")


@pytest.fixture(scope="module")
def rows(day: ClickFolder) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in day.parquet_files())


def stamps_ms(table: pa.Table) -> npt.NDArray[np.int64]:
    """Event times that are neither null nor off by decades."""
    times = table["event_time"].drop_null().cast(pa.int64()).to_numpy() // 1000
    good: npt.NDArray[np.int64] = times[(times >= START_MS) & (times < START_MS + DAY_MS)]
    return good


def gaps_s(table: pa.Table) -> npt.NDArray[np.float64]:
    """Seconds between neighbouring clicks of each session, flawed clicks left out."""
    begin, end = (datetime.fromtimestamp((START_MS + t) / 1000, UTC) for t in (0, DAY_MS))
    time = table["event_time"]
    table = table.filter(pc.and_(pc.greater_equal(time, begin), pc.less(time, end)))
    table = table.sort_by([("session_id", "ascending"), ("event_time", "ascending")])
    session = table["session_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    time_s = table["event_time"].cast(pa.int64()).to_numpy() / 1e6
    gaps: npt.NDArray[np.float64] = np.diff(time_s)[np.diff(session) == 0]
    return gaps


def digest(folder: Path) -> str:
    """Names, modification times and bytes of all files of a folder."""
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        total.update(path.name.encode())
        if path.name != DONE:
            total.update(str(path.stat().st_mtime_ns).encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def test_the_default_is_a_million_rows_of_the_promised_columns(
    day: ClickFolder, rows: pa.Table
) -> None:
    assert rows.num_rows == 1_000_000
    assert len(day.parquet_files()) == 24
    assert rows.schema.equals(SCHEMA)
    assert str(rows.schema.field("event_time").type) == "timestamp[us, tz=UTC]"


def test_it_covers_24_hours_of_event_time(rows: pa.Table) -> None:
    times = stamps_ms(rows)
    assert START_MS <= times.min() < START_MS + 60_000
    assert START_MS + DAY_MS - 60_000 < times.max() < START_MS + DAY_MS
    assert datetime.fromtimestamp(START_MS / 1000, UTC) == datetime(2025, 3, 3, tzinfo=UTC)


@pytest.mark.parametrize("share", GLOBO_GAPS)
def test_gaps_are_those_of_the_real_sessions(rows: pa.Table, share: float) -> None:
    ratio = np.quantile(gaps_s(rows), share) / GLOBO_GAPS[share]
    assert 1 / 1.5 < ratio < 1.5


def test_gaps_agree_with_the_real_clicks_themselves(data_dir: Path, rows: pa.Table) -> None:
    real = pq.read_table(data_dir / "globo_clicks.parquet", columns=["session_id", "event_time"])
    time_ms = real["event_time"].cast(pa.int64()).to_numpy()
    session = real["session_id"].to_numpy()
    order = np.lexsort((time_ms, session))
    wanted = np.diff(time_ms[order])[np.diff(session[order]) == 0] / 1000
    made = gaps_s(rows)
    for share in GLOBO_GAPS:
        assert 1 / 1.5 < np.quantile(made, share) / np.quantile(wanted, share) < 1.5


def test_sessions_come_back_after_a_pause_that_retention_forgets(rows: pa.Table) -> None:
    gaps = gaps_s(rows)
    sessions = pc.count_distinct(rows["session_id"]).as_py()
    assert 300_000 < sessions < 400_000
    assert 0.01 < np.mean(gaps > 45 * 60) < 0.05


def test_the_evening_is_busier_than_the_night(rows: pa.Table) -> None:
    hours = np.bincount((stamps_ms(rows) - START_MS) // 3_600_000, minlength=24)
    assert hours.argmin() in range(2, 6)
    assert hours.argmax() in range(18, 22)
    assert hours.max() > 5 * hours.min()


def test_dwell_is_sometimes_null_and_ids_are_plausible(rows: pa.Table) -> None:
    assert 0.02 < rows["dwell_ms"].null_count / rows.num_rows < 0.04
    assert pc.min(rows["dwell_ms"]).as_py() > 0
    assert rows["session_id"].null_count == 0
    assert set(pc.utf8_length(rows["session_id"]).unique().to_pylist()) == {16}
    assert pc.min(rows["user_id"]).as_py() == 1
    assert rows["page"][0].as_py().startswith("/")


def test_files_ascend_in_name_and_in_modification_time(day: ClickFolder) -> None:
    by_time = sorted(day.path.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    assert by_time == day.parquet_files()
    assert len({path.stat().st_mtime_ns for path in by_time}) == len(by_time)


def test_a_file_holds_its_slice_of_the_day_and_late_rows(day: ClickFolder) -> None:
    older = 0
    for hour, path in enumerate(day.parquet_files()):
        of_file = (stamps_ms(pq.read_table(path)) - START_MS) // 3_600_000
        assert of_file.max() == hour
        older += int((of_file < hour).sum())
    assert older == day.flaws["late"]


def flaws_by_the_rules(folder: ClickFolder) -> dict[str, int]:
    """What a pipeline with a delay of ten minutes rejects, judged file by file."""
    found = dict.fromkeys(("null_time", "too_old", "too_far_ahead", "late"), 0)
    watermark_ms = None
    for path in folder.parquet_files():
        column = pq.read_table(path)["event_time"]
        found["null_time"] += column.null_count
        all_ms = column.drop_null().cast(pa.int64()).to_numpy() // 1000
        found["too_old"] += int((all_ms < DAY_MS).sum())
        horizon_ms = START_MS + timedelta(days=3650) // timedelta(milliseconds=1)
        found["too_far_ahead"] += int((all_ms > horizon_ms).sum())
        good_ms = all_ms[(all_ms >= DAY_MS) & (all_ms <= horizon_ms)]
        if watermark_ms is not None:
            found["late"] += int((good_ms <= watermark_ms).sum())
        watermark_ms = max(watermark_ms or 0, int(good_ms.max()) - DELAY_MS - 1)
    return found


def test_a_few_tens_of_each_flaw_are_there_for_the_demo_to_show(day: ClickFolder) -> None:
    found = flaws_by_the_rules(day)
    assert found == day.flaws
    assert all(20 <= count <= 99 for count in found.values())


def test_late_rows_are_late_however_fine_the_files_are(tmp_path: Path) -> None:
    for files in (48, 96):
        folder = generate_clicks(tmp_path / str(files), events=100_000, files=files)
        assert flaws_by_the_rules(folder) == folder.flaws


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    one = generate_clicks(tmp_path / "one", events=SMALL)
    two = generate_clicks(tmp_path / "two", events=SMALL)
    assert digest(one.path) == digest(two.path)


def test_another_seed_gives_other_clicks(tmp_path: Path) -> None:
    one = generate_clicks(tmp_path / "one", events=SMALL, seed=1)
    two = generate_clicks(tmp_path / "two", events=SMALL, seed=2)
    assert not pq.read_table(one.path).equals(pq.read_table(two.path))


def test_a_second_call_finds_it_complete_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = generate_clicks(tmp_path / "clicks", events=SMALL)
    before = digest(first.path)
    monkeypatch.setattr(click_stream, "_draw", lambda recipe: pytest.fail("drew it again"))
    second = generate_clicks(tmp_path / "clicks", events=SMALL)
    assert first.created
    assert not second.created
    assert second.flaws == first.flaws
    assert digest(second.path) == before


def test_other_arguments_replace_no_clicks_unless_they_are_told_to(tmp_path: Path) -> None:
    out = tmp_path / "clicks"
    before = digest(generate_clicks(out, events=SMALL, seed=1, files=24).path)
    words = r"20,000 rows in 24 files, seed 1\): pass --overwrite .* or choose another folder"
    for other in ({"events": 5}, {"seed": 2}, {"files": 3}):
        with pytest.raises(FileExistsError, match=words):
            generate_clicks(out, **{"events": SMALL, "seed": 1, **other})
    assert digest(out) == before

    folder = generate_clicks(out, events=SMALL, seed=1, files=3, overwrite=True)
    assert folder.created
    assert len(folder.parquet_files()) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["clicks"]


def test_damaged_clicks_of_other_arguments_are_kept_too(tmp_path: Path) -> None:
    folder = generate_clicks(tmp_path / "clicks", events=SMALL)
    folder.parquet_files()[0].unlink()
    with pytest.raises(FileExistsError, match="--overwrite"):
        generate_clicks(tmp_path / "clicks", events=5)
    assert len(folder.parquet_files()) == 23


def test_the_command_refuses_in_a_line_and_replaces_when_told_to(tmp_path: Path) -> None:
    def said(*options: str) -> Said:
        command = ["generate", "clicks", "--out", str(tmp_path / "clicks"), *options]
        done = CliRunner().invoke(main, command)
        return Said(done.exit_code, done.output)

    assert_good(said("--events", "300"))
    assert_refused(said("--events", "5"), "holds other clicks (300 rows", "--overwrite")
    assert_good(said("--events", "300", "--overwrite"))
    assert "(already there)" in said("--events", "300", "--overwrite").text
    assert "5 clicks in" in said("--events", "5", "--overwrite").text


@pytest.mark.parametrize("damage", ["cut", "gone", "no marker text"])
def test_a_damaged_folder_is_made_again(tmp_path: Path, damage: str) -> None:
    folder = generate_clicks(tmp_path / "clicks", events=SMALL)
    whole = digest(folder.path)
    victim = folder.parquet_files()[7]
    if damage == "cut":
        victim.write_bytes(victim.read_bytes()[:-1])
    elif damage == "gone":
        victim.unlink()
    else:
        (folder.path / DONE).write_text("{")
    assert generate_clicks(tmp_path / "clicks", events=SMALL).created
    assert digest(folder.path) == whole


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="No space left"):
        generate_clicks(tmp_path / "clicks", events=SMALL)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_the_folder_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = generate_clicks(tmp_path / "clicks", events=SMALL)
    before = digest(folder.path)

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="No space left"):
        generate_clicks(tmp_path / "clicks", events=SMALL, seed=8, overwrite=True)
    assert digest(folder.path) == before


def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.parquet").write_bytes(b"years of work")
    with pytest.raises(FileExistsError, match="did not write: choose another folder"):
        generate_clicks(mine, events=SMALL, overwrite=True)
    with pytest.raises(FileExistsError, match="is not a folder"):
        generate_clicks(mine / "thesis.parquet", events=SMALL)
    assert (mine / "thesis.parquet").read_bytes() == b"years of work"


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "clicks").mkdir()
    assert generate_clicks(tmp_path / "clicks", events=SMALL).created


@pytest.mark.parametrize("events", [1, 2, 99, 1_000])
def test_small_streams_have_exactly_the_rows_asked_for(tmp_path: Path, events: int) -> None:
    folder = generate_clicks(tmp_path / "clicks", events=events)
    assert pq.read_table(folder.path).num_rows == events
    assert len(folder.parquet_files()) == 24


def test_one_file_holds_the_whole_day(tmp_path: Path) -> None:
    folder = generate_clicks(tmp_path / "clicks", events=SMALL, files=1)
    assert folder.flaws["late"] == 0
    assert flaws_by_the_rules(folder) == folder.flaws


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"events": 0}, "events must be from 1 to 100000000, not 0"),
        ({"seed": -1}, "seed must not be negative, not -1"),
        ({"files": 0}, "files must be from 1 to 1440"),
        ({"files": 1441}, "files must be from 1 to 1440"),
    ],
)
def test_arguments_out_of_range_are_refused(
    tmp_path: Path, wrong: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        generate_clicks(tmp_path / "clicks", **wrong)
    assert list(tmp_path.iterdir()) == []
