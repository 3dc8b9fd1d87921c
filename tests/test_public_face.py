"""What users import: a few modules, all of their names, and what documentation says of them."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import get_args

import pytest

from idlestate import deduplicate, errors, retain
from idlestate.testing import RetainHarness
from tests.docs_pages import ROOT, blocks, page, page_names
from tests.house import ROOMS, nodes_of, place, python_files

FACES = {
    "idlestate": "src/idlestate/__init__.py",
    "idlestate.errors": "src/idlestate/errors.py",
    "idlestate.sidecar": "sidecar/__init__.py",
    "idlestate.state": "state/__init__.py",
    "idlestate.testing": "src/idlestate/testing.py",
}
LAZY = ["idlestate", "idlestate.sidecar", "idlestate.state", "idlestate.testing"]


def imported(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Module and name of everything that is imported; no name where the module is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("name", page_names())
def test_documentation_imports_public_names_alone(name: str) -> None:
    ours = [
        (module, each)
        for block in blocks(name)
        if block.language == "python"
        for module, each in imported(ast.parse(block.text))
        if module.split(".")[0] == "idlestate"
    ]
    wrong = [
        (module, each)
        for module, each in ours
        if module not in FACES or (each and not hasattr(import_module(module), each))
    ]
    assert not wrong


@pytest.mark.parametrize("name", [each for each in page_names() if "decisions" not in each])
def test_documentation_names_no_private_module(name: str) -> None:
    rooms = "|".join(path.parent.name for path in ROOT.glob("*/__init__.py"))
    assert not re.findall(rf"\bidlestate\.(?:{rooms})\.[a-z]\w+", page(name))


@pytest.mark.parametrize("face", LAZY)
def test_type_checkers_and_python_see_the_same_names(face: str) -> None:
    module = import_module(face)
    tree = ast.parse((ROOT / FACES[face]).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {name: home for statement in block.body for home, name in imported(statement)}
    assert sorted(seen) == module.__all__
    for name, home in seen.items():
        assert getattr(module, name) is getattr(import_module(home), name), name


def test_the_types_of_all_public_names_are_checked() -> None:
    """By mypy, which `make test` runs on that file: the short form of the tests of the wheel."""
    (names,) = (
        node.value
        for node in ast.parse((ROOT / "tests/public_types.py").read_text()).body
        if isinstance(node, ast.AnnAssign)
    )
    public = {
        f"{face}.{name}"
        for face in FACES
        for name in getattr(import_module(face), "__all__", [each.__name__ for each in KINDS])
    }
    assert isinstance(names, ast.List)
    assert {ast.unparse(each) for each in names.elts} == public
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["modules"]
    assert "tests.public_types" in checked


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"idlestate\.state' has no attribute"):
        _ = import_module("idlestate.state").nothing


@pytest.mark.parametrize("face", FACES)
def test_importing_a_public_module_loads_neither_spark_nor_a_network(face: str) -> None:
    program = (
        f"import sys, {face}\n"
        "heavy = {'pyspark', 'rocksdict', 'pyarrow.flight', 'http.server'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


KINDS = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.IdlestateError)
]


def test_the_page_of_errors_lists_every_kind_with_what_to_do() -> None:
    listed = re.findall(r"^\| `(\w+)` \| \S", page("docs/errors.md"), re.M)
    assert listed == [each.__name__ for each in KINDS if each is not errors.IdlestateError]


ROOTS = {"IdlestateError", "StateError", "SidecarError"}
"""They tell the caller nothing about what to do next, so that only their subclasses are raised."""


@cache
def bases_and_raised() -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """The bases of each class of errors in our modules; what is raised, with its place."""
    paths = python_files(*ROOMS, "src")
    assert len(paths) > 200
    bases: dict[str, list[str]] = {}
    raised: list[tuple[str, str]] = []
    for path in paths:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):  # as lint wants it
                bases[node.name] = [name_of(each) for each in node.bases]
            if isinstance(node, ast.Raise):
                each = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                raised.append((name_of(each), place(path, node)))
    return bases, raised


def name_of(node: ast.expr | None) -> str:
    """A class by its own name, whatever module it is an attribute of."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def test_every_error_is_of_exactly_one_public_kind() -> None:
    bases, _ = bases_and_raised()

    def above(name: str) -> set[str]:
        return {name}.union(*map(above, bases.get(name, ())))

    kinds = {each.__name__ for each in KINDS[1:]}
    ours = {name: above(name) & kinds for name in bases if "IdlestateError" in above(name)}
    assert len(ours) > 30
    assert {name for name, found in ours.items() if len(found) != 1} == ROOTS


def test_no_source_raises_an_error_without_a_kind() -> None:
    _, raised = bases_and_raised()
    assert not [where for name, where in raised if name in ROOTS]


@pytest.mark.parametrize(
    ("face", "names"),
    [
        (
            "idlestate.state",
            {"ValueState", "ListState", "MapState", "ReducingState", "AggregatingState"},
        ),
        ("idlestate", {"Explanation", "KeyDetails", "KeyState", "SideRows"}),
    ],
)
def test_types_that_calls_return_are_public(face: str, names: set[str]) -> None:
    assert names <= set(import_module(face).__all__)


def ours_in(annotation: object) -> Iterator[str]:
    """The classes of idlestate that a type consists of."""
    parts = get_args(annotation)
    if not parts and getattr(annotation, "__module__", "").startswith("idlestate."):
        yield getattr(annotation, "__name__", str(annotation))
    for part in parts:
        yield from ours_in(part)


@pytest.mark.parametrize("face", LAZY)
def test_what_public_functions_return_is_public(face: str) -> None:
    public = {name for each in LAZY for name in import_module(each).__all__}
    module = import_module(face)
    for name in module.__all__:
        made = getattr(module, name)
        if inspect.isfunction(made):
            returned = inspect.signature(made).return_annotation
            assert {*ours_in(returned)} <= public, name


def test_the_example_of_errors_runs() -> None:
    (block,) = blocks("docs/errors.md")
    subprocess.run([sys.executable, "-W", "error", "-c", block.text], check=True)


def test_the_command_line_is_a_module_of_its_own() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "idlestate", "--help"], capture_output=True, text=True, check=True
    )
    assert "Usage: python -m idlestate" in said.stdout


@pytest.mark.parametrize("other", [deduplicate, RetainHarness])
def test_arguments_of_one_name_have_one_default(other: Callable[..., object]) -> None:
    ours, theirs = inspect.signature(retain).parameters, inspect.signature(other).parameters
    shared = ours.keys() & theirs.keys()
    assert shared >= {"key", "event_time", "delay", "policy", "order", "max_ahead", "rejects"}
    assert {name: theirs[name].default for name in shared} == {
        name: ours[name].default for name in shared
    }
    assert theirs.keys() - shared <= {"events", "keep", "schema", "clock"}
