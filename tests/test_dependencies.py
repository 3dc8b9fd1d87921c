"""What the source imports is declared in pyproject.toml, so that a clean installation has it."""

import sys
from importlib.metadata import packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house import PROJECT, ROOMS, imports_in, top


def names(requirements: list[str]) -> set[str]:
    """The packages that are required, except those of an extra."""
    found = [Requirement(each) for each in requirements if "extra ==" not in each]
    return {canonicalize_name(each.name) for each in found}


def test_what_is_imported_is_declared_or_required_by_what_is() -> None:
    declared = names(PROJECT["project"]["dependencies"])
    allowed = declared.union(*(names(requires(name) or []) for name in declared))
    packages = packages_distributions()
    imported = {top(module): where for module, where in imports_in(*ROOMS, "src")}
    assert {"numpy", "pyspark"} < imported.keys()
    missing = {
        name: where
        for name, where in imported.items()
        if name not in sys.stdlib_module_names | {"idlestate"}
        and allowed.isdisjoint(map(canonicalize_name, packages.get(name, [name])))
    }
    assert missing == {}
