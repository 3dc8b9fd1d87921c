"""The rooms, and what the files in them import: read by the tests of the house."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

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
    "sidecar": {"retention", "timers", "config", "web", "backends", "metrics", "advisor"},
    "pipeline": {
        *("retention", "timers", "config", "backends", "functions", "metrics", "sidecar"),
    },
    "service": {
        *("retention", "timers", "config", "web", "backends", "metrics", "advisor", "sidecar"),
        *("functions", "pipeline"),
    },
}
ROOMS = [room for room in MAY_IMPORT if (ROOT / room).is_dir()]

# Folders inside rooms that are packages of their own.
INSIDE_ROOMS = {
    "backends": ["checkpoint", "files", "runs", "shards"],
    "config": ["sql"],
    "metrics": ["dashboards"],
    "pipeline": ["checkpoint", "sinks", "spark"],
    "sidecar": ["client", "core", "protocol", "server", "stores", "workers"],
    "state": ["heap", "rocksdb", "runs"],
}


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


def nodes_of(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(), filename=str(path)))


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    # Trees of all files would be a million objects, which each collection of garbage walks through.
    return tuple(_imports_of(path))


def _imports_of(path: Path) -> Iterator[Import]:
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
