"""Arrow without pandas, for commands and processes that should be there at once."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any


class _NoPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(self, name: str, *_: Any) -> None:
        """Refuse it; other modules are looked for as ever."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here", name=name)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Keep Arrow from importing pandas, which takes longer than to look into a checkpoint.

    Arrow imports it, where it is installed, to ask whether a value is one of pandas. It tries this
    once: a process whose first array is made here never loads it.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
