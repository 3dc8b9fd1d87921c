"""What the source imports is declared in pyproject.toml, so that a clean installation has it."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NAME = re.compile(r"[A-Za-z0-9._-]+")


def distribution(requirement: str) -> str:
    """The name that a requirement begins with, as indexes compare names."""
    found = NAME.match(requirement)
    assert found
    return found[0].lower().replace("_", "-")


def imported(file: Path) -> set[str]:
    """The top-level names of the modules that a file imports, wherever it does."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def test_what_is_imported_is_declared_or_required_by_what_is() -> None:
    declared = {distribution(each) for each in PROJECT["project"]["dependencies"]}
    asked = {
        distribution(each)
        for name in declared
        for each in requires(name) or ()
        if "extra ==" not in each
    }
    folders = PROJECT["tool"]["setuptools"]["package-dir"].values()
    sources = {file for folder in folders for file in (ROOT / folder).rglob("*.py")}
    assert len(sources) > 100
    found = packages_distributions()
    missing = {}
    for file in sorted(sources):
        for name in imported(file) - sys.stdlib_module_names - {"idlestate"}:
            owners = {distribution(each) for each in found.get(name, [name])}
            if not owners & (declared | asked):
                missing[name] = str(file.relative_to(ROOT))
    assert missing == {}
