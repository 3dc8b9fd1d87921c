"""The examples of docs/sidecar.md: files that are good, and a program against a served one."""

import re
import signal
import subprocess
import sys
from pathlib import Path

from idlestate.config.loading import parse

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "sidecar.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCKS if found == language]


def test_files_are_good() -> None:
    assert {language for language, _ in BLOCKS} == {"yaml", "python", "sh", "text"}
    for text in blocks("yaml"):
        assert parse(text.encode()).warnings == ()


def test_the_program_runs_against_what_is_served(tmp_path: Path) -> None:
    (tmp_path / "sidecar.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "example.py").write_text("\n\n".join(blocks("python")))
    served = subprocess.Popen(
        [sys.executable, "-m", "idlestate.service.cli", "serve", "sidecar.yaml"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert served.stderr is not None
    try:
        assert served.stderr.readline().startswith("data at ")
        done = subprocess.run(
            [sys.executable, "-W", "error", "example.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for command in blocks("sh")[0].splitlines():
            asked = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert '"carts"' in asked.stdout or '"ada"' in asked.stdout, asked
    finally:
        served.send_signal(signal.SIGTERM)
        assert served.wait(60) == 0
        served.stderr.close()
