"""What the command line says of going on is true: --afresh would begin again instead."""

from typing import NoReturn

import pytest

from idlestate.errors import RefusedError
from idlestate.service.job import Job
from tests.service.command_line import CommandLine, Said, assert_refused


@pytest.fixture
def ended(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A pipeline whose run commits a batch and is interrupted."""
    run_until(monkeypatch, KeyboardInterrupt())
    line.write()
    return line


def run_until(monkeypatch: pytest.MonkeyPatch, error: BaseException, *, commits: int = 1) -> None:
    def run(job: Job, *told: object) -> NoReturn:
        for number in range(commits):
            log = job.checkpoint / "commits"
            log.mkdir(parents=True, exist_ok=True)
            (log / str(number)).touch()
        job.has_removed = job.afresh
        raise error

    monkeypatch.setattr(Job, "run", run)


def last_command(said: Said) -> str:
    """What is to be called, from the verb on."""
    _, _, command = said.text.strip().rpartition("run: ")
    return command[command.index(" run ") + 1 :]


def test_an_interrupted_run_goes_on_with_the_same_command(ended: CommandLine) -> None:
    said = ended.run("--source", str(ended.events))
    assert_refused(said, "interrupted; to continue from the last committed batch, run:", code=130)
    assert last_command(said) == f"run {ended.config} --source {ended.events}"


def test_an_interrupted_run_from_scratch_goes_on_without_afresh(ended: CommandLine) -> None:
    said = ended.run("--afresh", "--picture", "my state.svg")
    assert_refused(said, "to continue from the last committed batch, run:", code=130)
    assert last_command(said) == f"run {ended.config} --picture 'my state.svg'"


def test_a_run_from_scratch_that_fails_says_how_to_go_on(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.write()
    run_until(monkeypatch, RefusedError("the disk is full"))
    said = line.run("--afresh")
    assert_refused(said, "the disk is full\nwith --afresh it starts from scratch; to continue")
    assert last_command(said) == f"run {line.config}"
    assert "--afresh" not in line.run().text


def test_where_no_batch_is_committed_there_is_nothing_to_go_on_with(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.write()
    run_until(monkeypatch, RefusedError("no column usr"), commits=0)
    assert line.run("--afresh").text.strip().endswith("no column usr")
