"""The wheel in an environment of its own, outside of the repository: a job runs on it."""

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
JOB = "sample_job.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the repository: the job, and `v`, with the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("no git checkout: nothing says which files belong to the project")
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(("tests/", "docs/", "benchmarks/")) and (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", "dist", str(source), cwd=folder)
    (wheel,) = (folder / "dist").iterdir()
    venv.create(folder / "v", with_pip=False)
    (site,) = (folder / "v").glob("lib/*/site-packages")
    run(*pip, "install", "--no-deps", "--target", str(site), str(wheel), cwd=folder)
    # Dependencies are those of this environment; a .pth in it that names this checkout is not read.
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    shutil.copy(ROOT / "tests" / JOB, folder)
    return folder


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_job_runs_on_the_wheel(folder: Path) -> None:
    python = str(folder / "v" / "bin" / "python")
    place = run(python, "-c", "import idlestate; print(idlestate.__file__)", cwd=folder)
    assert Path(place.strip()).is_relative_to(folder)
    assert "set_current_key" in run(python, JOB, cwd=folder)
