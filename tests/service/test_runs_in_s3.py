"""`idlestate run` with its runs in an object store and its checkpoint here, through everything."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from idlestate.backends.checkpoint.runs_folder import remove_runs
from idlestate.backends.files.folder import Folder
from tests.crash.processes import Run, wait_until
from tests.s3_server import ENVIRONMENT, S3Server, serve_s3
from tests.service.command_line import CommandLine, Said, assert_good, assert_refused, event
from tests.service.rows import last_counts, rows

pytestmark = [pytest.mark.long, pytest.mark.spark]

HOURS = 9
FILES = [
    [
        event(f"2025-03-03T{10 + hour}:{minute:02}:00Z", f"{user} {at}", hour + at)
        for user, minute in (("all", 0), ("all", 10), (f"hour {hour // 2}", 20))
        for at in range(40)
    ]
    for hour in range(HOURS)
]


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server, for processes that are started from here; their cache is this test's own."""
    for name, value in {**ENVIRONMENT, "IDLESTATE_CACHE_DIR": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    with serve_s3(tmp_path / "log") as server:
        yield server


def line_of(folder: Path, hours: int) -> CommandLine:
    folder.mkdir()
    line = CommandLine(folder)
    for hour in range(hours):
        line.add(f"{hour}.json", FILES[hour])
    return line


def found(line: CommandLine) -> tuple[object, ...]:
    """What came of it, whichever batch said so."""
    expired = sorted(
        (row["user"], row["n"], row["total"], row["reason"], str(row["expired_at"]))
        for row in rows(line.out / "expired")
    )
    return last_counts(line.out / "results"), expired


def begun(line: CommandLine, batch: int) -> Run:
    """A run that has committed this batch, and goes on."""
    run = Run(line.config, line.folder / "log")
    commit = line.checkpoint / "commits" / str(batch)
    wait_until(f"batch {batch}", lambda: commit.exists() or run.code is not None)
    assert run.code is None, run.said()
    return run


def batch_of(name: str) -> int:
    """The batch that wrote an object."""
    return int(name.rpartition("/")[2].partition("-")[0])


def verify(line: CommandLine) -> Said:
    command = [sys.executable, "-m", "idlestate.service.cli", "state", "verify", line.checkpoint]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Said(done.returncode, done.stdout + done.stderr)


def test_a_kill_an_outage_a_lost_cache_and_a_lost_object_change_nothing(
    s3: S3Server, here: CommandLine, tmp_path: Path
) -> None:
    calm = line_of(here.folder / "calm", HOURS)
    calm.write()
    assert_good(calm.run())

    line = line_of(tmp_path / "line", HOURS - 1)
    line.write(runs=s3.url("state"))
    begun(line, 1).kill()
    shutil.rmtree(tmp_path / "cache")
    run = begun(line, 4)
    s3.road.shut()
    assert run.wait() == 1
    assert_refused(Said(1, run.said()), "cannot be reached", "nothing is lost")
    s3.road.open()
    assert_good(line.run_apart())
    assert not list(line.checkpoint.glob("idlestate/clicks/runs/*"))

    line.add("last.json", FILES[-1])
    shutil.rmtree(tmp_path / "cache")
    newest = max((name for name in s3.objects("state") if "-open-" in name), key=batch_of)
    data = s3.read(newest)
    s3.remove(newest)
    assert_refused(line.run_apart(), f"s3://idlestate-tests/{newest} is missing", "state verify")
    assert_refused(verify(line), f"s3://idlestate-tests/{newest} is missing", "needed by batches")
    s3.write(newest, data)
    assert_good(line.run_apart())
    assert found(line) == found(calm)

    remove_runs(Folder(str(line.checkpoint)))
    assert s3.objects("state") == []
