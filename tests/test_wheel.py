"""The wheel in an environment of its own: type checkers see its names, and a job runs on it."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
JOB, FUNCTIONS = "sample_job.py", "sample_functions.py"
MISUSE = """
from idlestate import Policy, retain
from idlestate.state import ValueStateDescriptor, open_backend
reveal_type(retain)
reveal_type(open_backend("heap").get_state)
open_backend("rocksdb", "state").reclaim()
Policy(idle_min=30)
from idlestate import retian
"""
MYPY = """
[mypy]
[mypy-pyarrow.*]
ignore_missing_imports = True
[mypy-numpy.*,pandas.*]
follow_imports = skip
follow_imports_for_stubs = True
"""


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
    for name in (JOB, FUNCTIONS):
        shutil.copy(ROOT / "tests" / name, folder)
    (folder / "misuse.py").write_text(MISUSE)
    return folder


def run(*command: str, cwd: Path, fails: bool = False) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done.stdout


def mypy(folder: Path, file: str, *, fails: bool = False) -> str:
    python = folder / "v" / "bin" / "python"
    (folder / "mypy.ini").write_text(MYPY)
    options = ("--strict", "--config-file", "mypy.ini", "--python-executable", str(python))
    return run(sys.executable, "-m", "mypy", *options, file, cwd=folder, fails=fails)


def test_the_check_of_a_job_runs_on_the_wheel(folder: Path) -> None:
    python = str(folder / "v" / "bin" / "python")
    place = run(python, "-c", "import idlestate; print(idlestate.__file__)", cwd=folder)
    assert Path(place.strip()).is_relative_to(folder)
    assert Path(place.strip()).with_name("py.typed").exists()  # without it, checkers see no types
    said = run(python, "-c", "import sample_job; sample_job.check()", cwd=folder)
    assert "set_current_key" in said


@pytest.mark.long
@pytest.mark.spark
def test_the_job_runs_on_the_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = str(folder / "v" / "bin" / "python")
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    assert run(python, JOB, cwd=folder) == "ada 1 idle\n"


def pyright(folder: Path, file: str, *, fails: bool = False) -> str:
    python = str(folder / "v" / "bin" / "python")
    options = {"typeCheckingMode": "standard"}  # the default of pyright
    (folder / "pyrightconfig.json").write_text(json.dumps(options))
    command = (sys.executable, "-m", "basedpyright", "--level", "error", "--pythonpath", python)
    return run(*command, file, cwd=folder, fails=fails)


@pytest.mark.long
@pytest.mark.parametrize("file", [JOB, FUNCTIONS])
def test_mypy_accepts_a_job(folder: Path, file: str) -> None:
    assert "no issues found" in mypy(folder, file)


@pytest.mark.long
def test_mypy_sees_what_names_are(folder: Path) -> None:
    said = mypy(folder, "misuse.py", fails=True)
    assert re.search(r'Revealed type is "def \(events: pyspark\S*DataFrame', said)
    assert re.search(r'"idle_min" to "Policy" has incompatible type "int"', said)
    assert 'Module "idlestate" has no attribute "retian"' in said
    assert "reclaim" not in said


@pytest.mark.long
@pytest.mark.parametrize("file", [JOB, FUNCTIONS])
def test_pyright_accepts_a_job(folder: Path, file: str) -> None:
    assert "0 errors" in pyright(folder, file)


@pytest.mark.long
def test_pyright_sees_what_names_are(folder: Path) -> None:
    said = pyright(folder, "misuse.py", fails=True)
    assert '"Literal[30]" cannot be assigned to parameter "idle_min" of type "Duration' in said
    assert '"retian" is unknown import symbol' in said
    assert "reclaim" not in said
