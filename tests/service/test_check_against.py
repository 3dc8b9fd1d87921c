"""`idlestate check --against`: what becomes of the state in a checkpoint, before a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from idlestate.service.cli import main
from tests.service.command_line import CommandLine, Said, assert_good, assert_refused, event

pytestmark = pytest.mark.spark

Check = Callable[..., Said]
AGGREGATES = {"n": "count", "total": "sum(amount)", "top": "max(amount)", "page": "last(user)"}


@pytest.fixture
def check(here: CommandLine, spark, monkeypatch: pytest.MonkeyPatch) -> Check:
    """The command on a checkpoint of `AGGREGATES` and a file with these fields."""
    monkeypatch.setattr(
        "idlestate.service.spark_session.start_spark", lambda partitions, log: spark
    )
    here.add("0.json", [event("2025-03-03T10:00:00Z", "a")])
    here.write(aggregates=AGGREGATES)
    assert_good(here.run())

    def call(checkpoint: Path | None = None, **changed: Any) -> Said:
        here.write(**({"aggregates": AGGREGATES} | changed))
        arguments = ["check", str(here.config), "--against", str(checkpoint or here.checkpoint)]
        done = CliRunner().invoke(main, arguments)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Said(done.exit_code, done.output)

    return call


def columns(said: Said) -> dict[str, str]:
    lines = [line.split() for line in said.text.splitlines() if line.startswith("  ")]
    return {name: became for name, became, *_ in lines}


@pytest.mark.long
def test_an_unchanged_file_keeps_every_column(check: Check) -> None:
    said = check()
    assert_good(said)
    assert "a run can continue from the state in" in said.text
    assert columns(said) == dict.fromkeys(AGGREGATES, "kept")


def test_what_becomes_of_each_column_is_told(check: Check, here: CommandLine) -> None:
    aggregates = {"clicks": "count", "total": "sum(amount)", "first": "first(amount)"}
    said = check(aggregates=aggregates, renamed={"clicks": "n"})
    assert_good(said)
    assert f"clicks: a run can continue from the state in {here.checkpoint}" in said.text
    assert columns(said) == {
        "clicks": "renamed",
        "total": "kept",
        "first": "added",
        "top": "dropped",
        "page": "dropped",
    }
    assert "was n" in said.text
    here.add("1.json", [event("2025-03-03T10:10:00Z", "a")])
    assert_good(here.run())  # and a run does what was said
    assert columns(check(aggregates=aggregates)) == dict.fromkeys(aggregates, "kept")


@pytest.mark.long
def test_a_column_of_another_type_is_refused(check: Check, here: CommandLine) -> None:
    source = {
        "path": str(here.events),
        "format": "json",
        "schema": {"event_time": "timestamp", "user": "string", "amount": "decimal(20, 0)"},
    }
    said = check(source=source)
    assert said.code == 1
    assert "a run cannot continue from the state in" in said.text
    assert columns(said) == {"n": "kept", "total": "refused", "top": "refused", "page": "kept"}
    assert "column amount was int64, is now decimal128(20, 0), which is not wider" in said.text


def test_what_is_fixed_is_refused_by_name(check: Check) -> None:
    said = check(key=["user", "amount"], shards=4)
    assert said.code == 1
    assert "keys was user: string, is now user: string, amount: int64" in said.text
    assert "shards was 2, is now 4" in said.text
    assert "restore the job, or use a new checkpoint folder" in said.text


def test_a_checkpoint_that_is_another_s_or_none_is_refused(check: Check, tmp_path: Path) -> None:
    said = check(tmp_path / "gone")
    assert_refused(said, "gone does not exist")
    said = check(uid="visits")
    assert_refused(said, "holds clicks, and", "defines visits")
