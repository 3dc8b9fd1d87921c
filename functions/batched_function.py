"""`BatchedProcessFunction`: what a user writes to process records of many keys in one call."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from idlestate.errors import RefusedError
from idlestate.functions.co_function import KeyedCoProcessFunction
from idlestate.functions.function import KeyedProcessFunction

if TYPE_CHECKING:
    from idlestate.functions.batch_context import BatchContext

Columns: TypeAlias = Mapping[str, Any] | pa.Table | pa.RecordBatch
Yielded: TypeAlias = Columns | Iterable[Columns] | None

FORMS = {
    "process_element": "process_batch",
    "on_timer": "on_timers",
    "on_expire": "on_expires",
}
"""The methods of one key, and those of many keys that stand for them."""


class BatchedProcessFunction(KeyedProcessFunction):
    """A function with state and timers for each key, called with many keys at once.

    In a call each key occurs once at most, with one record. Override `process_batch`, and if
    needed the others. Each may return columns that fit the operator's `output`, as a dict or an
    Arrow table, or yield several of them. States are declared as for `KeyedProcessFunction`, and
    must be value states.

    A class may also override `process_element`, `on_timer` and `on_expire`, as of
    `KeyedProcessFunction`. These are then called for keys with far more records than others, if a
    call fails, and if a state is not a value state. Both forms must do the same:
    `idlestate.testing.check_cuts` compares them.
    """

    def process_batch(self, rows: Any, ctx: "BatchContext") -> Yielded:
        """Records of different keys.

        Args:
            rows: a named tuple of the columns of the records, each an Arrow array.
            ctx: their keys and times; gives states and timers.
        """
        raise NotImplementedError("define process_batch")

    def on_timers(self, name: str | None, ctx: "BatchContext") -> Yielded:
        """Timers of different keys are due; `ctx.timestamps_ms` are their times.

        Args:
            name: their name; None for plain timers.
            ctx: as for `process_batch`.
        """

    def on_expires(self, ctx: "BatchContext") -> Yielded:
        """Lives ended by the policy; `ctx.timestamps_ms` are the deadlines.

        States can be read for the last time; changing them is an error.
        """


def overrides(function: KeyedProcessFunction, method: str) -> bool:
    """Whether the class of a function has its own form of a method."""
    base = KeyedProcessFunction if method in FORMS else BatchedProcessFunction
    own: Callable[..., Any] | None = getattr(type(function), method, None)
    return own is not None and own is not getattr(base, method)


def form_of(function: KeyedProcessFunction, kinds: Mapping[str, str]) -> str:
    """The form in which a function is called, as in `BoundFunction`; arguments as in `check_forms`.

    Raises:
        RefusedError: as in `check_forms`.
    """
    check_forms(function, kinds)
    if not isinstance(function, BatchedProcessFunction):
        return "keyed"
    if not overrides(function, "process_element"):
        return "batched"
    return "both" if set(kinds.values()) <= {"value"} else "keyed"


def check_forms(function: KeyedProcessFunction, kinds: Mapping[str, str]) -> None:
    """Refuse a function that lacks a method, or a batched one that cannot have its states.

    Args:
        function: the function.
        kinds: its states by name, and of which kind they are.

    Raises:
        RefusedError: with what to change.
    """
    name = type(function).__qualname__
    if isinstance(function, KeyedCoProcessFunction):
        if isinstance(function, BatchedProcessFunction):
            raise RefusedError(f"{name} is a BatchedProcessFunction too, which co_process does not "
                               "call; derive it from KeyedCoProcessFunction alone")  # fmt: skip
        _check_defined(function, KeyedCoProcessFunction, "process_element1", "process_element2")
        return
    if not isinstance(function, BatchedProcessFunction):
        _check_defined(function, KeyedProcessFunction, "process_element")
        return
    if not overrides(function, "process_batch"):
        raise RefusedError(f"{name} has no process_batch; define it, or derive the class from "
                           "KeyedProcessFunction")  # fmt: skip
    if overrides(function, "process_element"):
        for one, many in FORMS.items():
            if overrides(function, one) != overrides(function, many):
                has, lacks = (one, many) if overrides(function, one) else (many, one)
                raise RefusedError(f"{name} has {has} but no {lacks}; define both, because it has "
                                   "process_element and process_batch")  # fmt: skip
        return
    for one, many in FORMS.items():
        if overrides(function, one):
            raise RefusedError(f"{name} has {one} but no process_element; define {many} instead")
    for state, kind in kinds.items():
        if kind != "value":
            raise RefusedError(
                f"{name}: state {state!r} is a {kind} state, batched functions have value states "
                "only; change the state, or define process_element too, which is then called"
            )


def _check_defined(
    function: KeyedProcessFunction, base: type[KeyedProcessFunction], *methods: str
) -> None:
    for method in methods:
        if getattr(getattr(function, method), "__func__", None) is getattr(base, method):
            raise RefusedError(f"{type(function).__qualname__} has no {method}; define it")
