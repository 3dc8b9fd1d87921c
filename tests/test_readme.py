"""Every code block of the README and of the pages it leads to runs here, in their order.

The blocks of all these pages are one story in one folder. Pages with a test of their own are named
in `ELSEWHERE`, and every link of every page leads somewhere.
"""

import csv
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from idlestate.service.cli import main
from tests.docs_pages import ROOT, anchors, blocks, links, page, page_names
from tests.pipeline.conftest import spark, start_in  # noqa: F401 - fixtures

BIN = Path(sys.executable).parent
PICTURE = "docs/state.svg"
HERE = (
    *("README.md", "docs/jobs.md", "docs/configuration.md", "docs/operations.md"),
    "docs/changing-a-job.md",
)
ELSEWHERE = {
    "ARCHITECTURE.md": "test_readme.py",  # drawings alone
    "docs/aggregates.md": "pipeline/test_own_accumulators.py",
    "docs/advise.md": "advisor/test_advise_docs.py",
    "docs/cluster.md": "cluster/test_cluster.py",
    "docs/deduplicate.md": "test_deduplicate_docs.py",
    "docs/functions.md": "test_function_docs.py",
    "docs/in-order.md": "test_in_order_docs.py",
    "docs/joins.md": "test_joins_docs.py",
    "docs/over.md": "test_over_docs.py",
    "docs/errors.md": "test_public_face.py",
    "docs/metrics.md": "metrics/test_metrics_docs.py",
    "docs/sidecar.md": "test_sidecar_docs.py",
    "docs/plan.md": "service/test_plan_docs.py",
    "docs/spark-versions.md": "test_scripts.py",
    "docs/sql.md": "test_sql_docs.py",
    "docs/state.md": "test_state_docs.py",
    "docs/testing.md": "pipeline/test_retain_harness.py",
    "docs/two-steps.md": "test_two_steps_docs.py",
    "docs/windows.md": "test_windows_docs.py",
}

BLOCKS = [block for name in HERE for block in blocks(name)]
PYTHON = [block.text for block in BLOCKS if block.language == "python"]
YAML = {block.text.split()[1]: block.text for block in BLOCKS if block.language == "yaml"}
COMMANDS = [
    shlex.split(line.removeprefix("$ "), comments=True)
    for block in BLOCKS
    if block.language == "console"
    for line in block.text.splitlines()
]
MAKE = [command for command in COMMANDS if command[0] == "make"]
IDLESTATE = [command for command in COMMANDS if command[0] == "idlestate"]
STARTS_SPARK = {"run", "state", "--against"}

# Session a pauses for longer than its window and ends; b is still there at the end.
CLICKS = [
    ("2025-03-03T00:00:00Z", "a", "/home"),
    ("2025-03-03T00:10:00Z", "a", "/cart"),
    ("2025-03-03T03:00:00Z", "b", "/home"),
]
UNSAID = ("batch_id", "rejected")
COLUMNS = ("event_time", "session_id", "page")


def at(hour: int, minute: int) -> datetime:
    return datetime(2025, 3, 3, hour, minute, tzinfo=UTC)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with all that the examples read."""
    folder = tmp_path / "shop"
    folder.mkdir()
    for name, text in YAML.items():
        # Any free port: another run on this machine may have the usual one.
        (folder / name).write_text(f"{text}    metrics: {{port: 0}}\n")
    (folder / "clicks").mkdir()
    rows = [dict(zip(COLUMNS, click, strict=True)) for click in CLICKS]
    (folder / "clicks" / "clicks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    generated = pa.Table.from_pylist(
        [{**row, "event_time": datetime.fromisoformat(row["event_time"])} for row in rows]
    )
    (folder / "build" / "clicks").mkdir(parents=True)
    pq.write_table(generated, folder / "build" / "clicks" / "clicks.parquet")
    with gzip.open(folder / "more-clicks.csv.gz", "wt") as file:
        csv.writer(file).writerows([COLUMNS, *CLICKS])
    return folder


def run(command: list[str], folder: Path) -> str:
    env = os.environ | {"TZ": "UTC"}  # `show` prints local times
    env.pop("MAKEFLAGS", None)  # a make above this one must not speak for the one below
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_apart(command: list[str], folder: Path) -> str:
    return run([str(BIN / command[0]), *command[1:]], folder)


@pytest.fixture
def run_here(start_in: Callable[[Path], None]) -> Callable[[list[str], Path], str]:  # noqa: F811
    def run_here(command: list[str], folder: Path) -> str:
        start_in(folder)
        result = CliRunner().invoke(main, command[1:], catch_exceptions=False)
        assert result.exit_code == 0, f"{shlex.join(command)}\n{result.output}"
        return result.output

    return run_here


def rows_in(folder: Path) -> list[dict[str, object]]:
    table = ds.dataset(folder).to_table()
    return [
        {name: in_utc(value) for name, value in row.items() if name not in UNSAID}
        for row in sorted(table.to_pylist(), key=str)
    ]


def in_utc(value: object) -> object:
    # Spark writes timestamps without a zone.
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


EXPIRED = {
    "session_id": "a",
    "clicks": 2,
    "last_page": "/cart",
    "change": "expire",
    "created_at": at(0, 0),
    "last_access": at(0, 10),
    "expired_at": at(0, 45),
    "reason": "idle",
}


def test_every_block_is_one_that_runs() -> None:
    assert {block.language for block in BLOCKS} == {"console", "python", "yaml"}
    assert len(MAKE) + len(IDLESTATE) == len(COMMANDS)
    for block in BLOCKS:
        if block.language == "console":
            assert all(line.startswith("$ ") for line in block.text.splitlines())


@pytest.mark.parametrize("name", page_names())
def test_every_page_with_code_has_a_test(name: str) -> None:
    if blocks(name) and name not in HERE:
        assert name in ELSEWHERE, f"run the blocks of {name} here, or name the test that does"
        assert Path(name).name in (ROOT / "tests" / ELSEWHERE[name]).read_text()


def test_architecture_draws_and_has_no_code() -> None:
    assert {block.language for block in blocks("ARCHITECTURE.md")} == {"text"}


@pytest.mark.parametrize("command", MAKE, ids=shlex.join)
def test_make_knows_the_verb(command: list[str]) -> None:
    """What the verbs do would take minutes and the network; that `make` reads them is quick."""
    recipe = run(["make", "-n", *command[1:]], ROOT)
    for argument in command[2:]:
        assert argument.removeprefix("ARGS=") in recipe


@pytest.mark.parametrize("name", YAML)
def test_configuration_is_good(name: str, shop: Path) -> None:
    said = run_apart(["idlestate", "check", name], shop)
    assert said.startswith(f"{name}: valid")


@pytest.mark.spark
def test_commands_run_from_top_to_bottom(
    shop: Path, run_here: Callable[[list[str], Path], str]
) -> None:
    """In one test, because later commands look at what earlier ones left."""
    shutil.rmtree(shop / "build" / "clicks")
    for command in IDLESTATE:
        said = (run_here if STARTS_SPARK & {*command} else run_apart)(command, shop)
        if command[1] == "generate":
            assert {*COLUMNS} <= {*ds.dataset(shop / "build" / "clicks").schema.names}
        if command[1] == "run":
            assert re.search(r"^ +expired +1 life \(1 idle\)$", said, re.M), said
            assert rows_in(shop / "out" / "expired") == [EXPIRED]
        if "--picture" in command:
            picture = shop / command[command.index("--picture") + 1]
            assert ElementTree.parse(picture).getroot().tag.endswith("svg")


@pytest.fixture
def python_here(
    start_in: Callable[[Path], None],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> Callable[[str, Path], str]:
    def python_here(program: str, folder: Path) -> str:
        start_in(folder)
        # Python tasks run where Spark's JVM was started.
        program = program.replace("two/checkpoint", f"{folder}/two/checkpoint")
        exec(compile(program, "job.py", "exec"), {"__name__": "__main__"})
        return capsys.readouterr().out

    return python_here


def python_apart(program: str, folder: Path) -> str:
    """In a process of its own, as readers do: relative paths reach Spark's tasks too."""
    (folder / "job.py").write_text(program)
    return run([sys.executable, "job.py"], folder)


@pytest.mark.spark
@pytest.mark.parametrize("apart", [False, pytest.param(True, marks=pytest.mark.long)])
def test_python_runs_from_top_to_bottom(
    shop: Path, python_here: Callable[[str, Path], str], *, apart: bool
) -> None:
    said = (python_apart if apart else python_here)("\n\n".join(PYTHON), shop)

    changes = rows_in(shop / "job" / "changes")
    assert rows_in(shop / "sessions" / "changes") == changes
    expired = [row for row in changes if row["change"] == "expire"]
    updates = [row for row in changes if row["change"] == "update"]
    assert expired == [EXPIRED]
    assert updates
    for two in (("two/results", "two/expired"), ("split/update", "split/expire")):
        assert [rows_in(shop / folder) for folder in two] == [updates, expired]
    # Only b is open: one click at three, due 45 minutes later.
    assert re.search(r"^\| +b\| +1\|.*03:45:00\| +idle\|$", said, re.M), said
    assert not re.search(r"^\| +a\|", said, re.M)


def test_job_of_the_readme_takes_ten_lines_and_one_screen() -> None:
    (job,) = (block.text for block in blocks("README.md") if block.language == "python")
    assert len([line for line in job.splitlines() if line.strip()]) <= 10
    assert page("README.md").partition("\n## ")[0].count("\n") <= 40


@pytest.mark.parametrize("name", page_names())
def test_links_lead_somewhere(name: str) -> None:
    for link in links(name):
        place, _, anchor = link.partition("#")
        if place.startswith("https://"):
            continue
        target = (ROOT / name).parent / place if place else ROOT / name
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(str(target.resolve().relative_to(ROOT))), link


def test_picture_is_a_drawing_that_the_readme_shows() -> None:
    assert PICTURE in links("README.md")
    assert ElementTree.parse(ROOT / PICTURE).getroot().tag.endswith("svg")
