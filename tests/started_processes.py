"""The modules of idlestate that code starts as processes: read by the tests of the house."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

COMPUTED = "?"
"""A module whose name is not in the code."""
PROGRAM, ROOM_OF_PROGRAM = "idlestate", "service"
"""`python -m idlestate` and the command `idlestate` run the command line."""

_IN_ONE_TEXT = re.compile(r"(?:^|\s)-m\s*(idlestate[\w.]*)")


def started_by(tree: ast.AST) -> set[tuple[str, int]]:
    """The modules, and the lines of the code that start them.

    Found are the words of a command in a list, a tuple or the arguments of a call, the same words
    in one text, the installed command at the start of a list, and `runpy`.
    """
    return set(_started_by(tree))


def room_of(module: str) -> str | None:
    """The room of a module of idlestate; None for any other module."""
    first, *names = module.split(".")
    if first != PROGRAM:
        return None
    return names[0] if names and names[0] != "__main__" else ROOM_OF_PROGRAM


def _started_by(tree: ast.AST) -> Iterator[tuple[str, int]]:
    names = _texts_by_name(tree)
    documentation = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in documentation:
                yield from ((found, node.lineno) for found in _IN_ONE_TEXT.findall(node.value))
        elif isinstance(node, ast.Call):
            if ast.unparse(node.func).endswith("run_module"):
                yield _text(node.args[0], names) or COMPUTED, node.lineno
            yield from _in_words(node.args, names)
        elif isinstance(node, ast.List | ast.Tuple):
            if len(node.elts) > 1 and _text(node.elts[0], names) == PROGRAM:
                yield PROGRAM, node.lineno
            yield from _in_words(node.elts, names)


def _in_words(nodes: list[ast.expr], names: dict[str, str]) -> Iterator[tuple[str, int]]:
    words = list(_unpacked(nodes))
    for option, module in pairwise(words):
        if _text(option, names) == "-m":
            yield _text(module, names) or COMPUTED, module.lineno


def _unpacked(nodes: list[ast.expr]) -> Iterator[ast.expr]:
    for node in nodes:
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.List | ast.Tuple):
            yield from _unpacked(node.value.elts)
        else:
            yield node


def _texts_by_name(tree: ast.AST) -> dict[str, str]:
    assigned = (each for each in ast.walk(tree) if isinstance(each, ast.Assign | ast.AnnAssign))
    return {
        target.id: each.value.value
        for each in assigned
        if isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
        if isinstance(target, ast.Name)
    }


def _text(node: ast.expr, names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
