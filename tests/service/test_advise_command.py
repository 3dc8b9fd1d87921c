"""`idlestate advise`: what it prints and writes, and a plain line for what cannot be done."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from idlestate import advise
from idlestate.service.cli import main
from tests.service.command_line import INNARDS

START = datetime(2025, 3, 3, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    minutes = [0, 5, 10, 50, 60, 200, 1500, 1501]
    users = ["a", "b", "a", "a", "b", "b", "a", "b"]
    at = [START + timedelta(minutes=each) for each in minutes]
    pq.write_table(pa.table({"user": users, "app": ["x"] * 8, "at": at}), tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def called(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["advise", *map(str, words)])
    assert not any(word in done.output for word in INNARDS), done.output
    return done.exit_code, done.stdout, done.stderr


def test_json_is_the_advice_of_the_function(log: Path) -> None:
    code, out, _ = called(
        *(log, "--key", "user", "--key", "app", "--event-time", "at", "--format", "json"),
        *("--window", "30m", "--window", "30m/45m", "--key-budget", 1, "--batches", 3),
        *("--delay", "10m", "--bytes-per-key", 100, "--null-key", "reject"),
    )
    assert code == 0
    advice = advise(
        log,
        key=["user", "app"],
        event_time="at",
        windows=["30m", "30m/45m"],
        key_budget=1,
        batches=3,
        delay="10m",
        bytes_per_key=100,
        null_key="reject",
    )
    assert json.loads(out) == json.loads(json.dumps(advice.to_json()))
    assert json.loads(out)["windows"][0]["held_keys"] == list(advice.windows[0].held_keys)


def test_text_names_windows_and_policy_and_what_was_written(log: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "deep" / "advice.html", tmp_path / "curve.png"
    code, out, _ = called(
        log, "--key", "user", "--event-time", "at", "--html", page, "--picture", picture,
        "--batches", "5m",
    )  # fmt: skip
    assert code == 0
    for words in ("keys           2 by user", "knee", "at most 1% returning", "idle-user:"):
        assert words in out
    assert f"written: {picture}\nwritten: {page}\n" in out
    assert page.read_text().startswith("<!doctype html>")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_files_do_not_get_in_the_way_of_json(log: Path, tmp_path: Path) -> None:
    _, out, err = called(
        log, "--key", "user", "--event-time", "at", "--format", "json",
        "--html", tmp_path / "advice.html",
    )  # fmt: skip
    assert json.loads(out)["key"] == ["user"]
    assert "written:" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--key", "usr", "--event-time", "at"], "key column 'usr' not found; available: "),
        (["--key", "user", "--event-time", "at", "--window", "soon"], "not a valid duration"),
        (["--key", "user", "--event-time", "app"], "no row has a usable event time in app"),
        (["--key", "user", "--event-time", "at", "--batches", "0"], "batches 0 is not valid"),
    ],
)
def test_refusals_are_one_line(log: Path, words: list[str], said: str) -> None:
    code, out, err = called(log, *words)
    assert (code, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_file_that_cannot_be_written_is_named(log: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    code, out, err = called(
        log, "--key", "user", "--event-time", "at", "--html", tmp_path / "taken" / "a.html"
    )
    assert code == 1
    assert f"{tmp_path / 'taken'}: " in err
    assert "idle-user:" in out  # the finished analysis


def test_a_picture_of_an_unknown_kind_is_refused_before_the_log_is_read() -> None:
    code, _, err = called("gone", "--key", "user", "--event-time", "at", "--picture", "x.jpg")
    assert (code, err) == (2, "--picture x.jpg: the file must end in .svg or .png\n")


@pytest.mark.long
@pytest.mark.spark
def test_spark_prints_the_same(log: Path, start_in: Callable[[Path], None]) -> None:
    start_in(log.parent)
    words = ("--key", "user", "--event-time", "at", "--key-budget", 1, "--batches", "5m")
    assert called(log.name, *words, "--spark") == called(log.name, *words)


@pytest.mark.spark
def test_what_spark_cannot_use_is_one_line(log: Path, start_in: Callable[[Path], None]) -> None:
    start_in(log.parent)
    words = ("--key", "usr", "--event-time", "at", "--spark")
    code, _, err = called(log, *words)
    assert code == 1
    assert "key column 'usr' not found; available: user, app, at" in err
    code, _, err = called(f"file://{log.parent}/none.parquet", *words)
    assert code == 1
    assert "none.parquet" in err
    assert err.count("\n") == 1


def test_nothing_there_is_told_before_spark_starts(tmp_path: Path) -> None:
    code, _, err = called(tmp_path / "none", "--key", "user", "--event-time", "at", "--spark")
    assert (code, err) == (1, f"{tmp_path / 'none'}: no such file or folder\n")
