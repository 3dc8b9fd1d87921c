"""The blocks of docs/advise.md run, on a small day of clicks."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from idlestate.config.loading import load_config
from idlestate.service.cli import main
from idlestate.service.click_stream import generate_clicks
from tests.docs_pages import blocks
from tests.pipeline.conftest import spark, start_in  # noqa: F401 - fixtures
from tests.service.command_line import INNARDS

BLOCKS = blocks("docs/advise.md")
COMMANDS = [
    shlex.split(line.removeprefix("$ "))
    for block in BLOCKS
    if block.language == "console"
    for line in block.text.splitlines()
]
SPARK = [pytest.mark.spark, pytest.mark.long]
(PROGRAM,) = (block.text for block in BLOCKS if block.language == "python")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advise")
    generate_clicks(folder / "build" / "clicks", 20_000, 7)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, id=shlex.join(each), marks=SPARK if "--spark" in each else ())
        for each in COMMANDS
    ],
)
def test_command_runs(
    command: list[str],
    place: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, *words = command
    assert program == "idlestate"
    if "--spark" in command:
        request.getfixturevalue("start_in")(place)
    else:
        monkeypatch.chdir(place)
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert not any(word in done.output for word in INNARDS), done.output
    if "json" in command:
        windows = json.loads(done.stdout)["windows"]
        assert [each["idle_max_ms"] for each in windows] == [1_800_000, 2_700_000]
    for option in ("--html", "--picture"):
        if option in command:
            assert (place / command[command.index(option) + 1]).stat().st_size > 5000


def test_program_runs_and_prints_a_policy(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    windows, _, policy = done.stdout.partition("version: 1")
    assert [line.split()[0] for line in windows.splitlines()] == ["30m", "30m/45m", "2h"]
    (place / "policy.yaml").write_text(f"version: 1{policy}")
    assert list(load_config(place / "policy.yaml").policies) == ["idle-session_id"]
