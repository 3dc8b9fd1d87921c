"""The systemd unit: verified and rated by systemd's own tools, where they are."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "deploy/systemd/idlestate-sidecar.service"
WORST = 2.0
pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there in the place of the installed one."""
    text = UNIT.read_text().replace("/usr/bin/idlestate", shutil.which("true") or "/bin/true")
    path = tmp_path / UNIT.name
    path.write_text(text)
    return path


def verified(unit: Path) -> tuple[int, list[str]]:
    """The linter's exit code, and what it says of the unit."""
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]


def test_the_unit_is_verified(unit: Path) -> None:
    assert verified(unit) == (0, [])


def test_it_is_started_again_however_often_that_fails() -> None:
    lines = UNIT.read_text().splitlines()
    assert {"Restart=on-failure", "StartLimitIntervalSec=0"} <= set(lines)


@pytest.mark.parametrize(
    ("good", "bad"),
    [("ProtectSystem=", "ProtectSystm="), ("Type=notify", "Type=ready"), ("[Service]", "[Servce]")],
)
def test_the_linter_sees_what_is_wrong(unit: Path, good: str, bad: str) -> None:
    unit.write_text(unit.read_text().replace(good, bad, 1))
    code, told = verified(unit)
    assert code or told


def test_the_unit_is_rated_well(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    rated = re.search(r"exposure level for .*: ([\d.]+)", done.stdout)
    assert rated, done.stdout + done.stderr
    assert float(rated[1]) <= WORST, done.stdout


def test_offline_rating_is_what_is_meant(unit: Path) -> None:
    """A unit without any hardening is rated badly: the rating looks at the file."""
    bare = unit.with_name("bare.service")
    bare.write_text("[Service]\nExecStart=/bin/true\n")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--json=short", str(bare)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert any(each["set"] is False for each in json.loads(done.stdout))
