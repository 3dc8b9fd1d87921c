"""Loads the function that a configuration file names, as `module:Class`."""

from importlib import import_module
from typing import TypeVar

from idlestate.errors import RefusedError
from idlestate.functions.co_function import KeyedCoProcessFunction
from idlestate.functions.function import KeyedProcessFunction

_OWN = f"{KeyedProcessFunction.__module__.partition('.')[0]}."
"""Classes of these modules are base classes, not functions."""
Function = TypeVar("Function", bound=KeyedProcessFunction)


def load_function(uid: str, reference: str) -> KeyedProcessFunction:
    """Import the class of a `process` operator and instantiate it without arguments.

    Raises:
        RefusedError: the module cannot be imported, or the class cannot be used.
    """
    return _load(uid, reference, KeyedProcessFunction)


def load_co_function(uid: str, reference: str) -> KeyedCoProcessFunction:
    """The same for a `co_process` operator.

    Raises:
        RefusedError: as in `load_function`.
    """
    return _load(uid, reference, KeyedCoProcessFunction)


def _load(uid: str, reference: str, base: type[Function]) -> Function:
    start = f"operator {uid!r}: function {reference}"
    name, _, class_name = reference.partition(":")
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise RefusedError(
                f"{start}: module {missing} is not found; install it, or add its folder to "
                "PYTHONPATH"
            ) from error
        raise RefusedError(
            f"{start}: importing {name} raised {type(error).__name__}: {error}; correct the module"
        ) from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type) or not issubclass(found, base):
        classes = [
            each
            for each, value in vars(module).items()
            if isinstance(value, type)
            and issubclass(value, base)
            and issubclass(value, KeyedCoProcessFunction) == (base is KeyedCoProcessFunction)
            and not value.__module__.startswith(_OWN)
        ]
        what = f"is not a class derived from {base.__name__}" if found else "is not found"
        raise RefusedError(
            f"{start}: {class_name} {what}; {name} has {', '.join(classes) or 'no such class'}"
        )
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise RefusedError(
            f"{start}: {class_name}() raised {type(error).__name__}: {error}; the class must take "
            "no arguments: derive a class for each setting"
        ) from error
