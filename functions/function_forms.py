"""The forms of a user's function: methods that receive one key, and methods that receive many."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from idlestate.errors import RefusedError
from idlestate.functions.batched_co_function import BatchedCoProcessFunction
from idlestate.functions.batched_function import FORMS, BatchedProcessFunction
from idlestate.functions.co_function import KeyedCoProcessFunction
from idlestate.functions.function import KeyedProcessFunction

METHODS = (("process_element",), ("process_element1", "process_element2"))
"""The methods that receive records, for one input and for two."""
_BASES = (
    KeyedProcessFunction,
    KeyedCoProcessFunction,
    BatchedProcessFunction,
    BatchedCoProcessFunction,
)


def overrides(function: KeyedProcessFunction, method: str) -> bool:
    """Whether the class of a function overrides a method."""
    own: Callable[..., Any] | None = getattr(type(function), method, None)
    return own is not None and all(own is not getattr(base, method, None) for base in _BASES)


def form_of(function: KeyedProcessFunction, kinds: Mapping[str, str]) -> str:
    """The form in which a function is called, as in `BoundFunction`; arguments as in `check_forms`.

    Raises:
        RefusedError: as in `check_forms`.
    """
    check_forms(function, kinds)
    if not isinstance(function, BatchedProcessFunction):
        return "keyed"
    if not any(overrides(function, method) for method in _methods(function)):
        return "batched"
    return "both" if set(kinds.values()) <= {"value"} else "keyed"


def check_forms(function: KeyedProcessFunction, kinds: Mapping[str, str]) -> None:
    """Refuse a function that lacks a method, or a batched one that does not support its states.

    Args:
        function: the function.
        kinds: the kinds of its states by name.

    Raises:
        RefusedError: with what to change.
    """
    name, methods = type(function).__qualname__, _methods(function)
    is_co = isinstance(function, KeyedCoProcessFunction)
    base = KeyedCoProcessFunction if is_co else KeyedProcessFunction
    if not isinstance(function, BatchedProcessFunction):
        for method in methods:
            if getattr(getattr(function, method), "__func__", None) is getattr(base, method):
                raise RefusedError(f"{name} has no {method}; define it")
        return
    if is_co and not isinstance(function, BatchedCoProcessFunction):
        raise RefusedError(f"{name} is a BatchedProcessFunction too, which co_process does not "
                           "call; derive it from BatchedCoProcessFunction")  # fmt: skip
    for method in methods:
        if not overrides(function, FORMS[method]):
            raise RefusedError(f"{name} has no {FORMS[method]}; define it, or derive the class "
                               f"from {base.__name__}")  # fmt: skip
    _check_both(function, methods, kinds)


def _check_both(
    function: BatchedProcessFunction, methods: Sequence[str], kinds: Mapping[str, str]
) -> None:
    """Refuse a batched function whose one-key form is incomplete, or missing but needed."""
    name = type(function).__qualname__
    own = [method for method in methods if overrides(function, method)]
    forms = {one: FORMS[one] for one in (*methods, "on_timer", "on_expire")}
    if own:
        for one, many in forms.items():
            if overrides(function, one) != overrides(function, many):
                has, lacks = (one, many) if overrides(function, one) else (many, one)
                raise RefusedError(f"{name} has {has} but no {lacks}; define both, because it has "
                                   f"{own[0]} and {FORMS[own[0]]}")  # fmt: skip
        return
    for one, many in forms.items():
        if overrides(function, one):
            raise RefusedError(f"{name} has {one} but no {methods[0]}; define {many} instead")
    for state, kind in kinds.items():
        if kind != "value":
            raise RefusedError(
                f"{name}: state {state!r} is a {kind} state, batched functions have value states "
                f"only; change the state, or define {' and '.join(methods)} too, to be called "
                "instead"
            )


def _methods(function: KeyedProcessFunction) -> tuple[str, ...]:
    """The one-key methods that receive the records of a function."""
    return METHODS[isinstance(function, KeyedCoProcessFunction)]
