"""The command line: help that can be read, and a plain line for what cannot be done."""

import errno
import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import click
import pytest
from click.testing import CliRunner

from idlestate.__main__ import main as start
from idlestate.backends.checkpoint.checkpoint_lock import LOCK
from idlestate.metrics.growth_log import GrowthLog, GrowthPoint
from idlestate.retention.policy import Policy
from idlestate.service import cli, live_view
from tests.pipeline.made_checkpoint import make_clicks
from tests.service.command_line import CommandLine, Said, assert_refused

PIPELINE = """\
    source: {path: in, format: json}
    event_time: t
    delay: 1m
    key: [k]
    aggregates: {n: count}
    policy: a
"""


def called(*words: object) -> Said:
    done = CliRunner().invoke(cli.main, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Said(done.exit_code, done.output)


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name)


@pytest.mark.parametrize("words", list(commands(cli.main)), ids=" ".join)
def test_help_is_there_for_every_command_and_not_cut_off(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli.main, [*words, "--help"], terminal_width=78)
    said = Said(done.exit_code, done.output)
    assert said.code == 0
    assert "..." not in said.text.replace("[ARGS]...", "")


def test_a_file_without_pipelines_says_where_they_go(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("version: 1\n")
    assert_refused(
        called("run", file), f"{file} defines no pipelines; add one under `pipelines:`", code=2
    )


def test_of_several_pipelines_one_is_to_be_named(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    parts = "".join(
        f"  {uid}:\n{PIPELINE}    sinks: {{results: {uid}}}\n    checkpoint: c-{uid}\n"
        for uid in "pq"
    )
    file.write_text(f"version: 1\npolicies: {{a: {{ttl: 1d}}}}\npipelines:\n{parts}")
    assert called("check", file).text == f"{file}: valid (1 policy, 2 pipelines)\n"
    assert_refused(called("run", file), "pass --pipeline with one of p, q", code=2)
    assert_refused(called("run", file, "--pipeline", "r"), "does not define pipeline 'r'", code=2)


def test_a_file_without_a_sidecar_says_what_to_add(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("version: 1\n")
    assert_refused(called("serve", file), "has no `sidecar:` section; add one, such as")


def test_a_folder_that_cannot_be_made_is_named_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = called("generate", "clicks", "--events", 5, "--out", tmp_path / "file" / "clicks")
    assert_refused(said, f"{tmp_path}/file: File exists")
    assert "Errno" not in said.text
    assert_refused(called("schema", "--out", tmp_path), f"{tmp_path}: Is a directory; pass a file")


def test_ctrl_c_while_the_command_line_is_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Importing(ModuleType):
        def __getattr__(self, name: str) -> NoReturn:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "idlestate.service.cli", Importing("cli"))
    with pytest.raises(SystemExit) as ended:
        start()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "Aborted!\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("words", ["schema", "--version"])
@pytest.mark.parametrize(
    ("to", "why"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")]
)
def test_output_that_is_lost_is_told_in_one_line(words: str, to: str, why: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m idlestate {words} {to}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == f"Error: standard output cannot be written: {why}\n"
    assert done.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_is_not_told_to_be_a_missing_folder(tmp_path: Path) -> None:
    said = called("schema", "--out", "/dev/full")
    assert said.text == "/dev/full: No space left on device\n"
    said = called("schema", "--out", tmp_path / "gone" / "schema.json")
    assert_refused(said, "schema.json: No such file", "pass a file in a folder that exists")


def test_a_file_is_not_told_to_be_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.touch()
    said = called("explain", file, "--key", "a")
    assert said.text.startswith(f"{file} is not a checkpoint; pass the folder")


def test_a_control_plane_that_is_away_is_told_of_in_words() -> None:
    said = called("health", "unix:/nowhere/control.sock")
    assert_refused(said, "No such file or directory; check the address, and that the sidecar")
    assert "Errno" not in said.text
    said = called("health", "http://127.0.0.1:1", "--token-file", "/nowhere/token")
    assert said.text == (
        "http://127.0.0.1:1: token file /nowhere/token cannot be read (No such file or directory): "
        "correct its path or its permissions\n"
    )


def test_a_checkpoint_beside_which_no_log_can_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(partitions: int | None, log: Path) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system", str(log))

    make_clicks(tmp_path / "checkpoint")
    monkeypatch.setattr("idlestate.service.spark_session.start_spark", start)
    said = called("state", "ls", tmp_path / "checkpoint")
    assert_refused(said, f"{tmp_path}/checkpoint.spark.log: Read-only file system")


@pytest.mark.parametrize(
    "words", [("rollback", "--to", "1"), ("repartition", "--partitions", "2")], ids=lambda it: it[0]
)
def test_a_checkpoint_is_not_changed_under_a_running_query(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "idlestate" / "clicks").mkdir(parents=True)
    (tmp_path / "idlestate" / "clicks" / "layout.json").write_text("{}")
    verb, *options = words
    with (tmp_path / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = called("state", verb, tmp_path, *options)
    assert_refused(said, f"checkpoint {tmp_path} is in use already", "stop that one first")


@pytest.mark.parametrize(
    "words",
    [
        ("check", "f.yaml", "--against"),
        ("plan", "f.yaml", "--against"),
        ("explain", "--key", "a"),
        ("state", "ls"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("url", ["s3://bucket/checkpoint", "file:/data/checkpoint"])
def test_a_url_is_not_taken_for_the_path_of_a_checkpoint(words: tuple[str, ...], url: str) -> None:
    assert_refused(called(*words, url), f"{url} is a URL; pass the path of a checkpoint", code=2)


@pytest.mark.parametrize(
    ("points", "why"), [(0, "the growth log has no points yet"), (1, "file: File exists")]
)
def test_a_run_whose_picture_cannot_be_drawn_says_that_it_is_complete(
    line: CommandLine, monkeypatch: pytest.MonkeyPatch, points: int, why: str
) -> None:
    line.write()
    (line.folder / "file").touch()
    growth = GrowthLog(line.folder / "growth.jsonl")
    for batch_id in range(points):
        growth.append(GrowthPoint(batch_id=batch_id, time_ms=0, live_keys=1, keys_seen=1))
    finished: Any = SimpleNamespace(
        monitor=SimpleNamespace(figures=SimpleNamespace(policy=Policy())),
        growth=growth,
    )
    monkeypatch.setattr(live_view, "run_live", lambda job: finished)
    monkeypatch.setattr(cli, "_print_summary", lambda job, finished: None)
    said = line.run("--picture", str(line.folder / "file" / "state.svg"))
    assert_refused(said, "the run is complete, but its picture was not drawn", why)
