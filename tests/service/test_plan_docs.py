"""The blocks of docs/plan.md run, on a checkpoint of three clicks."""

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from idlestate.config.loading import load_config
from idlestate.retention.policy import Policy
from idlestate.service.cli import main
from tests.docs_pages import blocks
from tests.pipeline.made_checkpoint import make_clicks

BLOCKS = blocks("docs/plan.md")
COMMANDS = [
    shlex.split(line.removeprefix("$ "))
    for block in BLOCKS
    if block.language == "console"
    for line in block.text.splitlines()
]
PLAN, EXPLAIN = (block.text for block in BLOCKS if block.language == "python")
(SHORT,) = (block.text for block in BLOCKS if block.language == "yaml")
(SHOP,) = (b.text for b in blocks("docs/configuration.md") if b.text.startswith("# shop.yaml"))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop.yaml").write_text(SHOP)
    (tmp_path / "short.yaml").write_text(SHORT)
    make_clicks(tmp_path / "out" / "checkpoint")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=shlex.join)
def test_command_runs(shop: Path, command: list[str]) -> None:
    done = CliRunner().invoke(main, command[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "clicks-by-session" in done.output


def test_programs_run(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(PLAN)
    assert capsys.readouterr().out == "clicks-by-session 1 0 None\n"
    exec(EXPLAIN)
    assert capsys.readouterr().out.startswith("gone ")


def test_the_limit_of_the_file_is_the_policys(shop: Path) -> None:
    policy = load_config(shop / "short.yaml").policy_for("clicks-by-session")
    assert policy == Policy(idle_min="10m", idle_max="15m")
    assert policy.max_shrink == 0.95
