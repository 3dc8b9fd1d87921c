"""Who may import whom: downwards only, without cycles, and the core without large libraries."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.house import (
    INSIDE_ROOMS,
    MAY_IMPORT,
    ROOMS,
    ROOT,
    Import,
    imports_in,
    imports_of,
    place,
    python_files,
    top,
)

CORE = ["retention", "timers", "backends", "state", "functions"]
NOT_IN_CORE = {"pyspark", "rocksdict", "prometheus_client"}
OUTSIDE_CORE = ["state/rocksdb/*.py"]

FOLDERS = {*ROOMS, *(f"{room}/{each}" for room in INSIDE_ROOMS for each in INSIDE_ROOMS[room])}

# A room's public face names what users import, wherever it is, and loads it when it is used.
FACES = {"sidecar/__init__.py", "state/__init__.py"}

# From a room into its own folders: a backend of the library is loaded when it is chosen.
DOORS = {"state/backend_factory.py", "state/stored_parts.py", "state/__init__.py"}

# The rules are pure: of the standard library only what computes and describes.
RETENTION_MAY_IMPORT = {
    *("abc", "collections", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "json"),
    *("itertools", "math", "numbers", "operator", "re", "types", "typing"),
    "numpy",
}


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_downwards_only(room: str) -> None:
    allowed = MAY_IMPORT[room] | {room}
    wrong = []
    for module, where in imports_in(room):
        names = module.split(".")
        if names[0] != "idlestate" or where.split(":")[0] in FACES:
            continue
        # `import idlestate` and `from idlestate import retain` reach the public face, which
        # imports the rooms: that is upwards for all of them.
        # Errors and what keeps imports small are for all: they import nothing.
        if len(names) < 2 or names[1] not in allowed | {"errors", "_lazy", "_without_pandas"}:
            wrong.append(f"{where}: {room} may not import {module}")
    assert not wrong, "\n".join(wrong)


def test_folders_inside_rooms_import_each_other_one_way_only() -> None:
    imported: dict[str, set[str]] = {}
    for path in python_files(*ROOMS):
        if place(path) not in DOORS:
            folder, others = place(path.parent), map(folder_of, imports_of(path))
            imported.setdefault(folder, set()).update({*others} - {folder, None})
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the folders


def test_files_import_each_other_one_way_only() -> None:
    """What a file imports when it is loaded, and what its functions import when they are called."""
    imported = {module_of(path): set(used_by(tree_of(path))) for path in python_files(*ROOMS)}
    for face in FACES:
        # It loads what it names when it is used; `test_public_face` compares both lists.
        imported[module_of(ROOT / face)] = {each.module for each in imports_of(ROOT / face)}
    TopologicalSorter(imported).prepare()


def test_imports_in_functions_count_and_imports_for_types_do_not() -> None:
    program = """
if TYPE_CHECKING:
    import types_alone
else:
    import at_run_time
class Step:
    def apply(self):
        try:
            from package import module
        except ImportError:
            import instead
"""
    found = {"at_run_time", "package", "package.module", "instead"}
    assert set(used_by(ast.parse(program))) == found


def module_of(path: Path) -> str:
    named = ".".join(["idlestate", *path.relative_to(ROOT).with_suffix("").parts])
    return named.removesuffix(".__init__")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def used_by(node: ast.AST) -> Iterator[str]:
    """The modules, and names that may be some, that code imports at any time."""
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        yield node.module
        yield from (f"{node.module}.{each.name}" for each in node.names)
    elif isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    within = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        within = iter(node.orelse)
    for each in within:
        if isinstance(each, ast.stmt | ast.excepthandler | ast.match_case):
            yield from used_by(each)


def folder_of(imported: Import) -> str | None:
    """The room or the folder inside one that an import reaches; None outside of them."""
    first, *names = imported.module.split(".")
    folders = ("/".join(names[:deep]) for deep in (2, 1))
    return next((each for each in folders if first == "idlestate" and each in FOLDERS), None)


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
