"""Names that are looked up when they are first used, so that importing a package loads little."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are defined elsewhere.

    Type checkers read the imports under `TYPE_CHECKING` instead; a test holds that both agree.

    Args:
        package: the package's name.
        homes: module to the names that it defines.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def look_up(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home_of[name]), name)

    return look_up
