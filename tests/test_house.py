"""The house itself: what is where, and what must not be in it."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from idlestate.metrics.version import VERSION
from tests.house import (
    INSIDE_ROOMS,
    PROJECT,
    ROOMS,
    ROOT,
    imports_in,
    nodes_of,
    place,
    python_files,
    top,
)

RUNS_CODE = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
YAML_READERS = {"load", "load_all", "full_load", "full_load_all", "unsafe_load", "unsafe_load_all"}


# ------------------------------------------------------------------ layout


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_mapped_linked_and_banned_by_its_bare_name(room: str) -> None:
    setuptools = PROJECT["tool"]["setuptools"]
    assert f"idlestate.{room}" in setuptools["packages"]
    assert setuptools["package-dir"][f"idlestate.{room}"] == room
    for folder in INSIDE_ROOMS.get(room, []):
        assert f"idlestate.{room}.{folder}" in setuptools["packages"]
        assert setuptools["package-dir"][f"idlestate.{room}.{folder}"] == f"{room}/{folder}"
    assert room in banned_names(ROOT / "pyproject.toml")

    link = ROOT / "src" / "idlestate" / room
    assert link.is_symlink(), f"{link} is no symlink: mypy would check one file and be content"
    assert str(link.readlink()) == f"../../{room}"


@pytest.mark.parametrize("room", ROOMS)
def test_room_says_in_one_line_what_it_is(room: str) -> None:
    docstring = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text()))
    assert docstring


def test_public_package_is_typed_and_holds_nothing_but_links() -> None:
    inside = {path.name for path in (ROOT / "src" / "idlestate").iterdir()} - {"__pycache__"}
    assert inside == {
        *("__init__.py", "__main__.py", "errors.py", "py.typed", "testing.py"),
        *("_lazy.py", "_without_pandas.py"),
        *ROOMS,
    }


@pytest.mark.parametrize("room", ROOMS)
def test_wheel_gets_every_file_of_the_room(room: str) -> None:
    package_data = PROJECT["tool"]["setuptools"]["package-data"]
    for path in (ROOT / room).rglob("*"):
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        # Only the listed packages are built: another folder inside a room would be left out.
        built = [ROOT / room, *(ROOT / room / each for each in INSIDE_ROOMS.get(room, []))]
        assert path.parent in built, f"{place(path)}: the folder is no package"
        package = ".".join(["idlestate", *path.parent.relative_to(ROOT).parts])
        patterns = package_data.get(package, [])
        assert path.suffix == ".py" or any(fnmatch(path.name, each) for each in patterns), (
            f"{place(path)} is missing in package-data of pyproject.toml"
        )


def test_the_version_that_is_told_is_the_packages() -> None:
    assert PROJECT["project"]["version"] == VERSION


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_files_stay_short() -> None:
    long = [
        f"{place(path)}: {lines_of(path)} lines"
        for path in python_files(*ROOMS, "src", "tests", "benchmarks")
        if lines_of(path) > 350
    ]
    assert not long, "one noun per file, 250 lines or so: " + ", ".join(long)


def test_no_room_holds_more_than_a_quarter_of_the_lines() -> None:
    lines = {room: sum(map(lines_of, python_files(room))) for room in ROOMS}
    largest = max(lines, key=lambda room: lines[room])
    assert lines[largest] * 4 <= sum(lines.values()), f"{largest}: {lines}"


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = {}
    for path in python_files(*ROOMS, "src"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(place(path, node))
    assert not {name: places for name, places in homes.items() if len(places) > 1}


def banned_names(file: Path) -> set[str]:
    ruff = tomllib.loads(file.read_text())
    ruff = ruff["tool"]["ruff"] if file.name == "pyproject.toml" else ruff
    return set(ruff["lint"]["flake8-tidy-imports"]["banned-api"])


def test_tests_are_banned_what_the_library_is_but_for_seeded_chance() -> None:
    library, tests = banned_names(ROOT / "pyproject.toml"), banned_names(ROOT / "tests/ruff.toml")
    assert library - tests == {"random", "numpy.random"}
    assert tests <= library


# ------------------------------------------------------------------ what must not be in it


def test_nothing_reads_formats_that_run_code() -> None:
    wrong = [
        f"{where}: {module}"
        for module, where in imports_in(*ROOMS, "src", "scripts", "benchmarks")
        if top(module) in RUNS_CODE
    ]
    for path in python_files(*ROOMS, "src", "scripts", "benchmarks"):
        for node in nodes_of(path):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "yaml"
                and node.attr in YAML_READERS
            ):
                wrong.append(f"{place(path, node)}: yaml.{node.attr}")
            if isinstance(node, ast.Name) and node.id in {"eval", "exec"}:
                wrong.append(f"{place(path, node)}: {node.id}")
    assert not wrong, "\n".join(wrong)


def tracked_texts() -> Iterator[tuple[Path, str]]:
    """Files that are in the repository, or would be with `git add`, as far as they are text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("no git checkout: nothing says which files belong to the project")
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_symlink() or not path.is_file() or path == Path(__file__).resolve():
            continue
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    machine_path = re.compile(r"(?<![\w.$}*~-])/(?:home|Users|root|work|workspace|opt)/[\w.-]+")
    wrong = [
        f"{place(path)}:{number}: {found.group()}"
        for path, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if (found := machine_path.search(line))
    ]
    assert not wrong, "\n".join(wrong)
