"""The shell around the project: finding Java, the CI entry, the verbs of the Makefile."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ["bash", "sed", "head", "dirname", "readlink", "id"]


class Machine:
    """A machine of its own: a PATH with a few tools, and a folder for JVMs."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.jvms = folder / "jvms"
        self.bin.mkdir()
        self.jvms.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (self.bin / tool).symlink_to(found)

    def add_java(self, home: Path, version: str, *, with_release: bool = True) -> Path:
        (home / "bin").mkdir(parents=True)
        java = home / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
        java.chmod(0o755)
        if with_release:
            (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
        return home

    def find(self, *arguments: str, java_home: Path | None = None) -> tuple[int, str, str]:
        done = subprocess.run(
            [str(ROOT / "scripts" / "java.sh"), *arguments],
            env={
                "PATH": str(self.bin),
                "IDLESTATE_JVM_DIR": str(self.jvms),
                **({"JAVA_HOME": str(java_home)} if java_home else {}),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.strip(), done.stderr.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if Path("/usr/libexec/java_home").exists():
        pytest.skip("a Mac's own register of Javas cannot be hidden")
    return Machine(tmp_path)


def test_no_java_is_one_plain_line(machine: Machine) -> None:
    assert machine.find() == (1, "", "")
    code, out, err = machine.find("--install")  # no apt-get on this machine: nothing is installed
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "no Java 17 or newer found: install one" in err
    assert "openjdk-17-jre-headless" in err


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2", "25"])
@pytest.mark.parametrize("with_release", [True, False])
def test_java_home_is_taken(machine: Machine, version: str, *, with_release: bool) -> None:
    home = machine.add_java(machine.jvms.parent / "own", version, with_release=with_release)
    assert machine.find(java_home=home) == (0, str(home), "")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16"])
def test_older_java_is_passed_over(machine: Machine, version: str) -> None:
    old = machine.add_java(machine.jvms / "a-old", version)
    assert machine.find()[0] == 1
    new = machine.add_java(machine.jvms / "b-new", "17.0.1")
    assert machine.find() == (0, str(new), "")
    code, out, err = machine.find(java_home=old)
    assert (code, out) == (0, str(new))
    assert f"JAVA_HOME={old} holds no Java 17 or newer" in err


def test_java_on_the_path_is_followed_through_links(machine: Machine) -> None:
    home = machine.add_java(machine.jvms.parent / "real", "21.0.1")
    (machine.jvms.parent / "alternatives").symlink_to(home / "bin" / "java")
    (machine.bin / "java").symlink_to("../alternatives")
    assert machine.find() == (0, str(home.resolve()), "")


# ------------------------------------------------------------------ .ci/run


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project whose `make test` only says what it was given."""
    project = tmp_path / "place" / "project"
    (project / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", project / ".ci" / "run")
    (project / "Makefile").write_text("test:\n\t@echo data=$$IDLESTATE_DATA_DIR\n")
    return project


def run_ci(project: Path, data_dir: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "IDLESTATE_DATA_DIR"}
    env.pop("MAKEFLAGS", None)  # a make above this one must not speak for the one below
    if data_dir is not None:
        env["IDLESTATE_DATA_DIR"] = str(data_dir)
    return subprocess.run(
        [str(project / ".ci" / "run")], env=env, capture_output=True, text=True, check=False
    )


def test_ci_fails_without_real_data(checkout: Path) -> None:
    done = run_ci(checkout)
    assert done.returncode == 1
    assert "no real data sets: set IDLESTATE_DATA_DIR" in done.stderr
    assert "data=" not in done.stdout


def test_ci_fails_when_the_named_folder_is_not_there(checkout: Path, tmp_path: Path) -> None:
    done = run_ci(checkout, tmp_path / "nowhere")
    assert done.returncode == 1
    assert "nowhere is no folder" in done.stderr


def test_ci_prefers_the_named_folder_over_the_one_beside(checkout: Path, tmp_path: Path) -> None:
    beside = checkout.parent / "shared" / "data"
    beside.mkdir(parents=True)
    done = run_ci(checkout)
    assert f"ci: real data sets in {beside}\n" in done.stdout
    assert f"data={beside}\n" in done.stdout

    named = tmp_path / "named"
    named.mkdir()
    done = run_ci(checkout, named)
    assert f"ci: real data sets in {named}\n" in done.stdout
    assert f"data={named}\n" in done.stdout


# ------------------------------------------------------------------ verbs


def test_every_verb_is_listed_explained_and_in_contributing() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    verbs = set(phony[1].split())
    assert set(re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE)) == verbs
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert set(re.findall(r"^\| `make ([a-z-]+)", contributing, re.MULTILINE)) == verbs - {"help"}
