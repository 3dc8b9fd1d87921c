"""The house itself: who may import whom, what is where, what must not be in it."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from idlestate.metrics.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Each room and the rooms it may import: downwards only.
MAY_IMPORT: dict[str, set[str]] = {
    "retention": set(),
    "timers": {"retention"},
    "config": {"retention"},
    "web": set(),
    "backends": {"retention", "timers", "config"},
    "state": {"retention", "timers", "backends"},
    "functions": {"retention", "backends", "state"},
    "metrics": {"retention", "timers", "web", "backends"},
    "advisor": {"retention", "timers", "config"},
    "sidecar": {"retention", "timers", "config", "web", "backends", "metrics"},
    "pipeline": {
        *("retention", "timers", "config", "backends", "functions", "metrics", "sidecar"),
    },
    "service": {
        *("retention", "timers", "config", "web", "backends", "metrics", "advisor", "sidecar"),
        "pipeline",
    },
}
ROOMS = [room for room in MAY_IMPORT if (ROOT / room).is_dir()]

CORE = ["retention", "timers", "backends", "state", "functions"]
NOT_IN_CORE = {"pyspark", "rocksdict", "prometheus_client"}
OUTSIDE_CORE = ["state/rocksdb/*.py"]

# Folders inside rooms that are packages of their own.
INSIDE_ROOMS = {
    "backends": ["files", "runs", "shards"],
    "config": ["sql"],
    "metrics": ["dashboards"],
    "pipeline": ["checkpoint"],
    "sidecar": ["client", "core", "protocol", "server", "stores", "workers"],
    "state": ["heap", "rocksdb", "runs", "snapshots"],
}

# The rules are pure: of the standard library only what computes and describes.
RETENTION_MAY_IMPORT = {
    *("abc", "collections", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "json"),
    *("itertools", "math", "numbers", "operator", "re", "types", "typing"),
    "numpy",
}

RUNS_CODE = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
YAML_READERS = {"load", "load_all", "full_load", "full_load_all", "unsafe_load", "unsafe_load_all"}


class Import(NamedTuple):
    """One imported module, or a name that may be one, and where."""

    module: str
    where: str


def python_files(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def place(path: Path, node: ast.stmt | ast.expr | None = None) -> str:
    line = f":{node.lineno}" if node is not None else ""
    return f"{path.relative_to(ROOT).as_posix()}{line}"


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(), filename=str(path))))


def imports_of(path: Path) -> Iterator[Import]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, place(path, node))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{place(path, node)}: relative import"
            for alias in node.names:
                yield Import(f"{node.module}.{alias.name}", place(path, node))


def imports_in(*folders: str) -> Iterator[Import]:
    for path in python_files(*folders):
        yield from imports_of(path)


def top(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


# ------------------------------------------------------------------ who imports whom


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_downwards_only(room: str) -> None:
    allowed = MAY_IMPORT[room] | {room}
    wrong = []
    # A room's public face names what users import, wherever it is, and loads it when it is used.
    faces = {f"{face}/__init__.py" for face in ("sidecar", "state")}
    for module, where in imports_in(room):
        names = module.split(".")
        if names[0] != "idlestate" or where.split(":")[0] in faces:
            continue
        # `import idlestate` and `from idlestate import retain` reach the public face, which
        # imports the rooms: that is upwards for all of them.
        # Errors and what keeps imports small are for all: they import nothing.
        if len(names) < 2 or names[1] not in allowed | {"errors", "_lazy", "_without_pandas"}:
            wrong.append(f"{where}: {room} may not import {module}")
    assert not wrong, "\n".join(wrong)


def test_core_imports_no_spark_no_rocksdb_no_prometheus() -> None:
    wrong = [
        f"{where}: {module}"
        for path in python_files(*CORE)
        if not any(fnmatch(place(path), pattern) for pattern in OUTSIDE_CORE)
        for module, where in imports_of(path)
        if top(module) in NOT_IN_CORE
    ]
    assert not wrong, "\n".join(wrong)


def test_core_runs_without_spark_rocksdb_and_prometheus() -> None:
    modules = sorted(
        ".".join(["idlestate", *path.relative_to(ROOT).with_suffix("").parts])
        for path in python_files(*CORE)
        if not any(fnmatch(place(path), pattern) for pattern in OUTSIDE_CORE)
    )
    program = (
        "import importlib, sys\n"
        f"for name in {NOT_IN_CORE!r}: sys.modules[name] = None\n"
        f"for name in {modules!r}: importlib.import_module(name.removesuffix('.__init__'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_rules_import_nothing_but_numpy_and_pure_parts_of_the_standard_library() -> None:
    wrong = [
        f"{where}: {module}"
        for module, where in imports_in("retention")
        if top(module) not in RETENTION_MAY_IMPORT | {"idlestate"}
    ]
    assert not wrong, "\n".join(wrong)


def test_no_room_is_imported_by_its_bare_name() -> None:
    bare = [
        f"{where}: {module}: write idlestate.{module}"
        for module, where in imports_in(*ROOMS, "src", "tests", "scripts", "benchmarks")
        if top(module) in MAY_IMPORT
    ]
    assert not bare, "\n".join(bare)


@pytest.mark.parametrize("room", ROOMS)
def test_bare_names_are_not_importable_here(room: str) -> None:
    assert find_spec(room) is None, (
        f"import {room} works: the project's folder is on sys.path (use the pytest script, not "
        "python -m pytest); every class would exist twice"
    )


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
