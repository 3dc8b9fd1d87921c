"""The examples of docs/sidecar.md: files that are good, and programs against a served one."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from idlestate.config.loading import parse
from idlestate.sidecar.client.client import SidecarClient
from tests.docs_pages import blocks
from tests.patience import PATIENCE_S
from tests.sidecar.sidecar_process import wait_for

BLOCKS = blocks("docs/sidecar.md")


def in_language(language: str) -> list[str]:
    return [text for found, text in BLOCKS if found == language]


PROGRAM, SPARK_JOB = in_language("python")


@contextmanager
def served(folder: Path, text: str) -> Iterator[None]:
    """A sidecar of a file, in a folder."""
    (folder / "sidecar.yaml").write_text(text)
    sidecar = subprocess.Popen(
        [sys.executable, "-m", "idlestate.service.cli", "serve", "sidecar.yaml"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert sidecar.stderr is not None
    try:
        assert sidecar.stderr.readline().startswith("data at ")
        yield
    finally:
        sidecar.send_signal(signal.SIGTERM)
        assert sidecar.wait(PATIENCE_S) == 0
        sidecar.stderr.close()


def run(folder: Path, text: str, *options: str) -> None:
    (folder / "example.py").write_text(text)
    done = subprocess.run(
        [sys.executable, *options, "example.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_files_are_good() -> None:
    assert {language for language, _ in BLOCKS} == {"yaml", "python", "sh"}
    for text in in_language("yaml"):
        assert parse(text.encode()).warnings == ()


def test_the_program_runs_against_what_is_served(tmp_path: Path) -> None:
    with served(tmp_path, in_language("yaml")[0]):
        run(tmp_path, PROGRAM, "-W", "error")
        for command in in_language("sh")[0].splitlines():
            asked = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert '"carts"' in asked.stdout or '"ada"' in asked.stdout, asked


@pytest.mark.long
@pytest.mark.spark
def test_the_spark_job_takes_what_expired(tmp_path: Path) -> None:
    slow, soon = "idle: {min: 30m, max: 45m}", "min_gap: 1ms, idle: {min: 10ms, max: 20ms}"
    text = in_language("yaml")[0]
    assert slow in text
    with served(tmp_path, text.replace(slow, soon)):
        with SidecarClient(f"unix:{tmp_path}/state/data.sock", "carts") as carts:
            carts.add_many({"customer": ["ada", "ada"], "amount": [5, 1]})
            wait_for(lambda: list(carts.expired()))
        run(tmp_path, SPARK_JOB)
        run(tmp_path, SPARK_JOB)  # goes on where it was, and there is nothing new
    (row,) = ds.dataset(tmp_path / "mailer" / "ended").to_table().to_pylist()
    assert (row["customer"], row["total"], row["reason"]) == ("ada", 6, "idle")
