"""The shell around the project: Java and other packages, the CI entry, the Makefile's verbs."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from idlestate.pipeline.spark.spark_version import NEWEST

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

    def add_tool(self, name: str, does: str) -> None:
        tool = self.bin / name
        tool.write_text(f"#!{shutil.which('bash')}\n{does}\n")
        tool.chmod(0o755)

    def add_packages(self, *there: str) -> None:
        """An apt-get that says what it is asked for, and where installing makes the program."""
        self.add_tool("id", "echo 0")
        self.add_tool("env", '[ "$1" != DEBIAN_FRONTEND=noninteractive ] || shift; "$@"')
        self.add_tool("apt-cache", f'case " {" ".join(there)} " in *" $2 "*) ;; *) exit 1 ;; esac')
        self.add_tool("apt-get", f'echo "apt-get $*"; : >{self.bin}/"${{!#}}"')

    def run(self, script: str, *arguments: str, **settings: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [str(ROOT / "scripts" / script), *arguments],
            env={"PATH": str(self.bin), "IDLESTATE_JVM_DIR": str(self.jvms), **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def find(self, *arguments: str, java_home: Path | None = None) -> tuple[int, str, str]:
        settings = {"JAVA_HOME": str(java_home)} if java_home else {}
        return self.run("java.sh", *arguments, **settings)


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


def test_redis_that_is_missing_is_one_plain_line(machine: Machine) -> None:
    code, out, err = machine.run("redis.sh")  # no apt-get on this machine: nothing is installed
    assert (code, out) == (0, "")
    assert len(err.splitlines()) == 1
    assert "apt-get install redis-server" in err


def test_redis_is_installed_once(machine: Machine) -> None:
    machine.add_packages("redis-server")
    code, out, err = machine.run("redis.sh")
    assert (code, out) == (0, "")
    assert "installing redis-server" in err
    assert (machine.bin / "redis-server").exists()
    (machine.bin / "redis-server").chmod(0o755)
    assert machine.run("redis.sh") == (0, "", "")


def test_the_first_package_that_there_is_is_installed(machine: Machine) -> None:
    machine.add_packages("openjdk-21-jre-headless", "default-jre-headless")
    code, out, err = machine.find("--install")
    assert (code, out) == (1, "")  # the played package brings no Java
    asked = [line for line in err.splitlines() if line.startswith("apt-get install")]
    assert [line.split()[-1] for line in asked] == ["openjdk-21-jre-headless"]
    assert "no Java 17 or newer found" in err


# ------------------------------------------------------------------ .ci/run


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project whose `make test` and `make test-all` only say what they were given."""
    project = tmp_path / "place" / "project"
    (project / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", project / ".ci" / "run")
    targets = "test:\n\t@echo data=$$IDLESTATE_DATA_DIR\ntest-all: test\n\t@echo the rest\n"
    (project / "Makefile").write_text(targets)
    return project


def run_ci(project: Path, data_dir: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "IDLESTATE_DATA_DIR"}
    for name in ("MAKEFLAGS", "MAKELEVEL"):  # a make above this one must not change the one below
        env.pop(name, None)
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
    assert "nowhere is not a folder" in done.stderr


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


def test_ci_runs_the_short_tests_first_and_no_test_twice(checkout: Path, tmp_path: Path) -> None:
    lines = run_ci(checkout, tmp_path).stdout.splitlines()
    assert lines[-2:] == [f"data={tmp_path}", "the rest"]
    makes = lines_of("test", "test-all", "variants")
    forms = ["not long", "long and not variant", "variant"]
    assert [f.strip('"') for f in re.findall(r'pytest .* -m (".*?"|\w+)', makes)] == forms


# ------------------------------------------------------------------ verbs


def test_every_verb_is_listed_explained_and_in_contributing() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    verbs = set(phony[1].split())
    assert set(re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE)) == verbs
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert set(re.findall(r"^\| `make ([a-z-]+)", contributing, re.MULTILINE)) == verbs - {"help"}


# ------------------------------------------------------------------ versions of Spark


def lines_of(*arguments: str) -> str:
    """What `make` would run; a make above this one must not speak for it."""
    env = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "SPARK"}}
    command = ["make", "--dry-run", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=True
    ).stdout


def test_another_version_of_spark_gets_an_environment_of_its_own() -> None:
    assert "$ make test SPARK=4.1\n" in (ROOT / "docs" / "spark-versions.md").read_text()
    other = lines_of("test", "SPARK=4.1")
    assert "scripts/setup.sh build/spark-4.1 4.1\n" in other
    assert " build/spark-4.1/bin/pytest " in other
    assert ".venv" not in other
    newest = lines_of("test")
    assert f"scripts/setup.sh .venv {NEWEST[0]}.{NEWEST[1]}\n" in newest
    assert ".venv/bin/mypy" in newest


def test_a_version_of_spark_that_is_not_supported_is_refused_before_anything_is_made(
    tmp_path: Path,
) -> None:
    command = [str(ROOT / "scripts" / "setup.sh"), str(tmp_path / "venv"), "3.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "setup: Spark 3.5 is not supported: SPARK is one of 4.1 4.2 4.3\n"
    assert not (tmp_path / "venv").exists()


def test_browser_that_is_missing_is_one_plain_line(machine: Machine, tmp_path: Path) -> None:
    code, out, err = machine.run("browser.sh", "--install", str(tmp_path / "tools"))
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "no Node.js found: install nodejs and npm" in err
