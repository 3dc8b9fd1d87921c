"""What `idlestate run` refuses before it starts a JVM."""

import fcntl
import os
import shutil
import socket
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from idlestate.backends.checkpoint.checkpoint_lock import LOCK
from idlestate.errors import RefusedError
from idlestate.service.job import Job
from tests.service.command_line import CommandLine, assert_refused, event

TOOLS = ("bash", "basename", "cat", "dirname", "env", "expr", "grep", "ls", "readlink", "sed", "sh")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("idlestate.service.spark_session.launch_gateway", refuse)
    monkeypatch.setattr("idlestate.service.job.start_spark", refuse)


@pytest.fixture
def ran(line: CommandLine) -> CommandLine:
    """What a run leaves, as far as `--afresh` looks at it."""
    (line.checkpoint / "idlestate" / "clicks").mkdir(parents=True)
    (line.checkpoint / "commits").mkdir()
    (line.checkpoint / "commits" / "0").touch()
    for sink in ("results", "expired", "rejects"):
        (line.out / sink / "batch_id=0").mkdir(parents=True)
        (line.out / sink / "_idlestate.json").write_text('{"query_id": "x"}')
    return line


def files(line: CommandLine) -> list[Path]:
    return sorted(path for path in line.out.rglob("*") if path.name != LOCK)


def test_a_machine_without_java_gets_one_line_that_says_what_to_install(line, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (tools / tool).symlink_to(found)
    hidden = {"JAVA_HOME", "PATH", "SPARK_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    line.add("0.json", [event("2025-03-03T10:00:00Z", "a")])
    line.write()
    said = line.run_apart(environment={**environment, "PATH": str(tools)}, limit_s=120)
    assert_refused(said, "Java 17", "apt-get install openjdk-17-jre-headless", "JAVA_HOME")
    assert not line.checkpoint.exists()


def test_a_java_home_without_java_is_named_with_what_it_holds(line, tmp_path):
    line.add("0.json", [event("2025-03-03T10:00:00Z", "a")])
    line.write()
    home = tmp_path / "home"
    (home / "jre").mkdir(parents=True)
    environment = {**os.environ, "JAVA_HOME": str(home)}
    said = line.run_apart(environment=environment, limit_s=120)
    assert_refused(said, f"JAVA_HOME is wrong: {home} holds no bin/java (it holds jre)")


def test_a_taken_metrics_port_is_named_with_the_way_out(line):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line.write(metrics={"port": port})
        assert_refused(line.run(), f"port {port}", "another program listens", "0: any free one")


def test_a_source_path_that_is_not_there_is_named(line):
    line.write(source=line.source(path=str(line.folder / "nowhere")))
    assert_refused(line.run(), str(line.folder / "nowhere"), "does not exist", "--source")


def test_a_source_on_the_command_line_that_is_not_there_is_named(line):
    line.write()
    assert_refused(line.run("--source", "no-such-folder"), "no-such-folder", "does not exist")


@pytest.mark.parametrize("options", [[], ["--afresh"]], ids=["on", "afresh"])
@pytest.mark.parametrize("place", ["results", "expired/batch_id=0", "checkpoint", "link"])
def test_a_source_on_the_command_line_that_the_pipeline_writes_is_refused(ran, place, options):
    ran.write()
    (ran.out / "link").symlink_to(ran.out / "rejects")
    before = files(ran)
    source = str(ran.out / place)
    assert_refused(ran.run("--source", source, *options), f"source {source} and", "overlap")
    assert files(ran) == before


@pytest.mark.parametrize("name", ["checkpoint", "results", "expired", "rejects"])
def test_afresh_removes_no_folder_of_others(line, name):
    line.write()
    mine = line.out / name / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    said = line.run("--afresh")
    assert_refused(said, str(line.out / name), "--afresh does not remove it")
    assert mine.read_text() == "mine"


def test_afresh_removes_nothing_at_all_when_one_folder_is_of_others(line):
    line.write()
    ours = line.out / "results"
    ours.mkdir(parents=True)
    (ours / "_idlestate.json").write_text('{"query_id": "x"}')
    theirs = line.out / "rejects"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("mine")
    assert_refused(line.run("--afresh"), str(theirs))
    assert ours.is_dir()


def test_afresh_removes_no_checkpoint_of_another_query(line):
    line.write()
    (line.checkpoint / "offsets").mkdir(parents=True)
    (line.checkpoint / "idlestate" / "another").mkdir(parents=True)
    assert_refused(line.run("--afresh"), str(line.checkpoint))
    assert (line.checkpoint / "offsets").is_dir()


@pytest.mark.parametrize(
    ("changed", "options", "words"),
    [
        ({}, ["--source", "typo/"], ["source typo/ does not exist"]),
        ({"metrics": {"port": 0, "address": "192.0.2.1"}}, [], ["192.0.2.1"]),
        (
            {"kind": "process", "function": "nowhere:F", "output": "n bigint", "aggregates": None},
            [],
            ["nowhere"],
        ),
    ],
    ids=["source", "port", "function"],
)
def test_afresh_removes_nothing_if_the_run_cannot_start(ran, changed, options, words):
    if "function" in changed:
        changed["sinks"] = {"results": str(ran.out / "results")}
    ran.write(**changed)
    before = files(ran)
    said = ran.run("--afresh", *options)
    assert_refused(said, *words)
    assert "to continue" not in said.text
    assert files(ran) == before


@pytest.mark.parametrize("fails", ["start_spark", "Job._changes"])
def test_afresh_removes_nothing_if_spark_or_its_input_is_refused(ran, monkeypatch, fails):
    def refuse(*words: object) -> None:
        raise RefusedError("not so")

    monkeypatch.setattr("idlestate.service.job.start_spark", lambda *_: MagicMock())
    monkeypatch.setattr(f"idlestate.service.job.{fails}", refuse)
    ran.write()
    before = files(ran)
    assert_refused(ran.run("--afresh"), "not so")
    assert files(ran) == before


def test_afresh_removes_nothing_under_a_running_query(ran, monkeypatch):
    monkeypatch.setattr("idlestate.service.job.start_spark", lambda *_: MagicMock())
    monkeypatch.setattr(Job, "_changes", lambda *_: None)
    ran.write()
    with (ran.checkpoint / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = files(ran)
        assert_refused(ran.run("--afresh"), str(ran.checkpoint), "in use", "stop that one first")
        assert files(ran) == before


def test_afresh_removes_no_file(line):
    line.write()
    line.out.mkdir()
    (line.out / "results").write_text("mine")
    assert_refused(line.run("--afresh"), str(line.out / "results"))
    assert (line.out / "results").read_text() == "mine"


def test_a_checkpoint_that_is_a_file_is_refused(line):
    line.write()
    line.out.mkdir()
    line.checkpoint.write_text("mine")
    assert_refused(line.run(), str(line.checkpoint), "is a file")


def test_a_checkpoint_of_another_query_is_refused_and_left_as_it_is(line):
    """Nothing may be planned in it: its own query would run that batch later."""
    line.write()
    (line.checkpoint / "offsets").mkdir(parents=True)
    (line.checkpoint / "offsets" / "0").write_text("v1\n{}\n{}")
    another = line.checkpoint / "idlestate" / "another"
    another.mkdir(parents=True)
    (another / "layout.json").touch()
    before = sorted(line.checkpoint.rglob("*"))
    assert_refused(line.run(), str(line.checkpoint), "another query", "'clicks'", "another")
    assert sorted(line.checkpoint.rglob("*")) == before


def test_a_configuration_that_is_not_there_is_named(line):
    line.config = Path("nowhere.yaml")
    assert_refused(line.run(), "nowhere.yaml")


def test_a_pipeline_that_the_file_has_not_is_named_with_those_it_has(line):
    line.write()
    assert_refused(line.run("--pipeline", "clocks"), "clocks", "clicks", code=2)


def test_a_picture_of_an_unknown_kind_is_refused_before_anything_runs(line):
    line.write()
    assert_refused(line.run("--picture", "state.gif"), "state.gif", ".svg or .png", code=2)


@pytest.mark.parametrize("secret", ["--token-file", "--ca-file", "--cert-file", "--key-file"])
def test_a_secret_for_no_sidecar_is_not_left_unused(line, secret):
    line.add("0.json", [event("2025-03-03T10:00:00Z", "a")])
    line.write()
    said = line.run(secret, "given.pem")
    assert_refused(said, secret, "requires --sidecar ADDRESS", code=2)
